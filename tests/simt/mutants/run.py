#!/usr/bin/env python3
"""Runs programs with one thing broken, and the same tests of the program that is whole: the former have to fail, the
latter to pass. run.py WHOLE (PROGRAM FILTER)…  Prints TAP."""

import subprocess
import sys
from pathlib import Path

SECONDS = 120  # of a mutant's few tests, which may hang


def passes(program, only, seconds):
    """A deadlock that is found, a fault and a wrong result are all the same here."""
    try:
        run = subprocess.run((program, f"--gtest_filter={only}"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False, "it hung"
    if b"Running 0 tests" in run.stdout:
        sys.exit(f"no test matches {only}")
    return run.returncode == 0, run.stdout.decode(errors="replace")[-800:]


whole, rest = sys.argv[1], sys.argv[2:]
pairs = list(zip(rest[::2], rest[1::2]))
print(f"1..{len(pairs) + 1}")
# All mutants' tests, which do not hang, on however busy a machine.
good, output = passes(whole, ":".join(only for _, only in pairs), None)
print(f"{'ok' if good else 'not ok'} 1 - whole")
if not good:
    print("\n".join("# " + line for line in output.splitlines()))
for number, (program, only) in enumerate(pairs, 2):
    good, _ = passes(program, only, SECONDS)
    print(f"{'not ok' if good else 'ok'} {number} - {Path(program).name} is caught by {only}")
