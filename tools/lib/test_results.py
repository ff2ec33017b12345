"""Adds up test results: meson's JUnit and JSON logs and pytest's JUnit file.

usage: test_results.py FILE…      a meson log base ("…/testlog-unit") or a JUnit file ("….xml")

Prints the failed cases and why others were skipped, then "N passed, N failed, N skipped"; exits 1 if any failed.
Every case counts by itself. A program that ended badly without a failed case (a crash, a time-out)
counts as one failure.
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


def add_junit(totals, path):
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        name = suite.get("name", "?").split(" / ")[-1]  # meson: "itif.itif:unit / net.Frame"
        for case in suite.iter("testcase"):
            totals.add_case(name, case)


def add_meson(totals, base):
    before = len(totals.failures)
    junit = Path(f"{base}.junit.xml")
    if junit.exists():
        add_junit(totals, junit)
    programs = {re.split(r"[.:]", name)[0] for name in totals.failures[before:]}
    log = Path(f"{base}.json")
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        test = json.loads(line)
        if test["result"] in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT"):
            name = test["name"].split(" / ")[-1]
            if name not in programs and f"itif:{name}" not in programs:
                totals.failures.append(f"{name}: {test['result']} (exit status {test['returncode']})")


def main(paths):
    totals = Totals()
    for path in paths:
        if path.endswith(".xml"):
            if Path(path).exists():
                add_junit(totals, path)
            else:
                totals.failures.append(f"{Path(path).stem}: ended without results")
        else:
            add_meson(totals, path)
    for reason, count in totals.skips.items():
        print(f"skipped {count}: {reason}")
    for name in totals.failures:
        print(f"FAILED {name}")
    print(f"{totals.passed} passed, {len(totals.failures)} failed, {sum(totals.skips.values())} skipped")
    return 1 if totals.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
