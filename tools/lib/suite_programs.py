"""Prints the programs that suites of a configured build directory run, one ninja target a line.

usage: suite_programs.py BUILD_DIRECTORY SUITE…

Meson's own target meson-test-prereq builds the programs of all suites.
"""

import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(("meson", "introspect", what, build), stdout=subprocess.PIPE, check=True).stdout)


def main(build, suites):
    names = {f"itif:{suite}" for suite in suites}
    needed = {target for test in introspect(build, "--tests") if names & set(test["suite"]) for target in test["depends"]}
    for target in introspect(build, "--targets"):
        if target["id"] in needed:
            print(*(os.path.relpath(name, build) for name in target["filename"]), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(os.path.realpath(sys.argv[1]), sys.argv[2:])
