"""The programs of tools/ that measure refuse numbers that make no sense, by the argument's name, before they start
anything. Needs no root and no appliance."""

import re
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
NO_COUNTS = ("0", "-1", "1.5", "nan", "many")
NO_NUMBERS = ("0", "-1", "nan", "inf", "many")
NO_PARTS = ("0", "-0.1", "1.1", "nan", "many")
REFUSED = {
    "bench-fairness": {"--spin": ("1,,2", "-1", "many"), "--rounds": NO_COUNTS, "--seconds": NO_COUNTS},
    "bench-flood": {"--factor": NO_NUMBERS, "--victim-rate": NO_NUMBERS, "--rounds": NO_COUNTS,
                    "--seconds": NO_COUNTS},
    "bench-isolation": {"--calm-load": (*NO_PARTS, "1"), "--rounds": NO_COUNTS, "--seconds": NO_COUNTS},
    "bench-latency": {"--tokens": NO_COUNTS, "--rate": NO_NUMBERS, "--seconds": NO_COUNTS},
    "bench-overload": {"--factor": NO_NUMBERS, "--budget": ("0ms", "500", "-1ms", "nan"), "--rounds": NO_COUNTS,
                       "--seconds": NO_COUNTS, "--tries": NO_COUNTS},
    "bench-reliability": {"--pairs": NO_COUNTS, "--seconds": NO_COUNTS},
    "bench-stages": {"--pairs": NO_COUNTS, "--seconds": NO_COUNTS, "--concurrency": NO_COUNTS, "--tokens": NO_COUNTS},
    "bench-swap": {"--rounds": NO_COUNTS, "--seconds": NO_COUNTS, "--every": NO_NUMBERS, "--load": NO_PARTS},
    "soak": {"--minutes": (*NO_NUMBERS, "0.1"), "--load": NO_PARTS, "--seed": ("1.5", "many")},
    "validate-simulation": {"--seconds": NO_COUNTS, "--tolerance": NO_NUMBERS},
}


def run(tool, *arguments):
    return subprocess.run((TOOLS / tool, *arguments), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("tool", REFUSED)
def test_numbers_without_sense_are_refused_by_name(tool):
    for option, values in REFUSED[tool].items():
        for value in values:
            done = run(tool, f"{option}={value}")
            assert done.returncode == 2 and option in done.stderr.splitlines()[-1], (option, value, done.stderr)


@pytest.mark.parametrize("tool", REFUSED)
def test_every_option_with_a_number_is_listed(tool):
    numeric = re.findall(r'"(--[a-z-]+)", type=', (TOOLS / tool).read_text(encoding="utf-8"))
    assert set(numeric) == set(REFUSED[tool])


def test_every_program_is_listed():
    assert {path.name for path in TOOLS.glob("bench-*")} | {"soak", "validate-simulation"} == set(REFUSED)
