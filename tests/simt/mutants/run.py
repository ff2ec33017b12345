#!/usr/bin/env python3
"""Runs the tests that must notice what is broken in each mutant: run.py WHOLE (PROGRAM FILTER)…  Prints TAP.

Each PROGRAM must fail the tests of its FILTER. WHOLE is the program with nothing broken: it lists the tests, and every
filter must match some. A separate test checks that WHOLE passes them. As many mutants run at a time as there are cores.
"""

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS = 120  # for the few tests of a mutant, which may hang


def is_caught(program, tests):
    """A deadlock that is found, a fault, a hang and a wrong result all count. The first one ends the program."""
    try:
        run = subprocess.run((program, f"--gtest_filter={tests}", "--gtest_break_on_failure"), stdout=subprocess.DEVNULL,
                             stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0


def matches(whole, tests):
    listed = subprocess.run((whole, "--gtest_list_tests", f"--gtest_filter={tests}"), capture_output=True, text=True,
                            check=True)
    return any(line.startswith("  ") for line in listed.stdout.splitlines())


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a failed assertion is a trap
whole, rest = sys.argv[1], sys.argv[2:]
pairs = list(zip(rest[::2], rest[1::2]))
print(f"1..{len(pairs)}", flush=True)
with ThreadPoolExecutor(os.cpu_count()) as pool:
    outcomes = pool.map(lambda pair: matches(whole, pair[1]) and is_caught(*pair), pairs)
    for number, ((program, tests), caught) in enumerate(zip(pairs, outcomes), 1):
        print(f"{'ok' if caught else 'not ok'} {number} - {Path(program).name} is caught by {tests}", flush=True)
