"""Adds up test results: meson's JUnit and JSON logs and pytest's JUnit file.

usage: test_results.py FILE…      a meson log base ("…/testlog-unit"), a JUnit file ("….xml") or "failed:WHAT"

Prints the failed cases and the reasons of skipped ones, then "N passed, N failed, N skipped"; exits 1 if any failed.
Counts cases, not programs; a program that failed without a failed case (a crash, a time-out) is one failure.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


class Totals:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = Counter()

    def add_case(self, suite, case):
        name = f"{suite}: {case.get('name', '?')}"
        if case.find("failure") is not None or case.find("error") is not None:
            self.failures.append(name)
        elif case.find("skipped") is not None:
            skipped = case.find("skipped")
            # GoogleTest puts "file:line" on a line before the reason.
            lines = (skipped.get("message") or skipped.text or "").strip().splitlines()
            self.skips[lines[-1] if lines else name] += 1
        else:
            self.passed += 1


def add_junit(totals, path, where=""):
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        name = suite.get("name", "?").split(" / ")[-1]  # meson: "itif.itif:unit / net.Frame"
        for case in suite.iter("testcase"):
            totals.add_case(where + name, case)


def add_meson(totals, base):
    before = len(totals.failures)
    build = Path(base).parents[1].name
    where = "" if build == "build" else f"{build} "
    junit = Path(f"{base}.junit.xml")
    if junit.exists():
        add_junit(totals, junit, where)
    programs = {re.split(r"[.:]", name.removeprefix(where))[0] for name in totals.failures[before:]}
    for line in Path(f"{base}.json").read_text(encoding="utf-8").splitlines():
        test = json.loads(line)
        if test["result"] in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT"):
            name = test["name"].split(" / ")[-1]
            if name not in programs and f"itif:{name}" not in programs:
                totals.failures.append(f"{where}{name}: {test['result']} (exit status {test['returncode']})")


def main(paths):
    totals = Totals()
    for path in paths:
        try:
            if path.startswith("failed:"):
                totals.failures.append(path.removeprefix("failed:"))
            elif path.endswith(".xml"):
                add_junit(totals, path)
            else:
                add_meson(totals, path)
        except (OSError, ValueError, ElementTree.ParseError) as error:
            totals.failures.append(f"{Path(path).stem}: cannot read its results ({error})")
    for reason, count in totals.skips.items():
        print(f"skipped {count}: {reason}")
    for name in totals.failures:
        print(f"FAILED {name}")
    print(f"{totals.passed} passed, {len(totals.failures)} failed, {sum(totals.skips.values())} skipped")
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
