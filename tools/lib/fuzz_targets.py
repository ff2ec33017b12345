"""Runs fuzz targets that are linked with libFuzzer, as many at a time as there are cores.

usage: fuzz_targets.py BUILD_DIRECTORY SECONDS [TARGET…]      (no target: all that are built)

Prints for each target its executions, the basic blocks that they reached, and whether it found a defect. Keeps in
BUILD_DIRECTORY/fuzz: corpus/TARGET/ (inputs that reach new code; the next run continues with them), TARGET.log,
crash-TARGET-… (inputs that show a defect), results.xml (JUnit). Exits 1 if a target found a defect.
"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import quoteattr

SEEDS = Path(__file__).resolve().parents[2] / "tests/fuzz/corpus"
# An input that takes so long is a defect, also on a machine under load.
INPUT_SECONDS = 20
MOST_MEMORY_MB = 4096


class Outcome:
    def __init__(self, name, status, log):
        self.name = name
        self.log = log
        self.executions = last_number(r"stat::number_of_executed_units: +(\d+)", log) or last_number(r"^#(\d+)", log)
        self.blocks = last_number(r"\bcov: (\d+)", log)
        self.failure = "" if status == 0 else defect(log) or f"exit status {status}"


def last_number(pattern, log):
    found = re.findall(pattern, log, re.MULTILINE)
    return int(found[-1]) if found else 0


def defect(log):
    """The first line about a defect, and the file with its input."""
    lines = re.findall(r"^.*(?:ERROR: |runtime error: |CHECK failed|check failed|what\(\)).*$", log, re.MULTILINE)
    files = re.findall(r"Test unit written to (\S+)", log)
    return "; ".join([line.strip() for line in lines[:1]] + files[-1:])


def run(program, directory, seconds):
    name = program.name.removeprefix("fuzz_")
    new = directory / "corpus" / name
    new.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", "-print_final_stats=1", f"-timeout={INPUT_SECONDS}"]
    # Entropic's accounts would take half of the time of targets that reach much code.
    command += ["-entropic=0", f"-rss_limit_mb={MOST_MEMORY_MB}", f"-artifact_prefix={directory}/crash-{name}-"]
    if "detect_leaks=0" in os.environ.get("ASAN_OPTIONS", ""):
        command.append("-detect_leaks=0")
    log = directory / f"{name}.log"
    with log.open("wb") as output:
        status = subprocess.run(command + [new, SEEDS / name], stdout=output, stderr=output, check=False).returncode
    outcome = Outcome(name, status, log.read_text(encoding="utf-8", errors="replace"))
    print(f"{name:18} {outcome.executions:12,} {outcome.blocks:8,}  {outcome.failure or 'no defect'}", flush=True)
    return outcome


def write_junit(path, outcomes):
    cases = []
    for outcome in outcomes:
        failure = f"<failure message={quoteattr(outcome.failure)}/>" if outcome.failure else ""
        cases.append(f'<testcase name="{outcome.name}">{failure}</testcase>')
    path.write_text(f'<testsuites><testsuite name="libFuzzer">{"".join(cases)}</testsuite></testsuites>\n')


def main(build, seconds, targets):
    build = Path(build).resolve()
    directory = build / "fuzz"
    directory.mkdir(exist_ok=True)
    programs = sorted(p for p in (build / "tests/fuzz").glob("fuzz_*") if p.is_file() and os.access(p, os.X_OK))
    if targets:
        programs = [p for p in programs if p.name.removeprefix("fuzz_") in targets]
    if not programs or len(programs) < len(targets):
        sys.exit(f"fuzz_targets.py: {build}/tests/fuzz has no such target")
    print(f"{'target':18} {'executions':>12} {'blocks':>8}")
    begun = time.monotonic()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        outcomes = list(pool.map(lambda program: run(program, directory, seconds), programs))
    write_junit(directory / "results.xml", outcomes)
    print(f"{len(programs)} targets in {time.monotonic() - begun:.0f} s; logs, corpora and crashes are in {directory}")
    return 1 if any(outcome.failure for outcome in outcomes) else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
