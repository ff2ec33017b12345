"""Every option and every argument of every program says what it does. Needs no root and no appliance."""

import re
import subprocess

import pytest
from harness.appliance import program

PROGRAMS = ("itifd", "itifctl", "itif-loadgen", "itif-run", "itif-bench", "itif-sim", "itif-mkmodel")
# Descriptions begin in this column of the same line, or of the next line if the option is long.
COLUMN = 30


def has_description(line):
    """False for an option so long that it covers the column, as in "--hidden UINT:UINT in [1 - 16384]"."""
    rest = line[COLUMN:]
    return line[COLUMN - 1:COLUMN] == " " and rest.strip() != "" and rest.count("]") <= rest.count("[")


def undescribed(text):
    lines = [*text.splitlines(), ""]
    return [line.strip() for line, following in zip(lines, lines[1:])
            if re.match(r"  (-|[A-Z][A-Z_]* )", line) and not has_description(line)
            and not following.startswith(" " * (COLUMN - 1))]


def subcommands(text):
    listed = text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z][a-z0-9-]*) ", listed, re.MULTILINE)


def check(command):
    done = subprocess.run((*command, "--help"), capture_output=True, text=True, check=True)
    assert not undescribed(done.stdout), command
    for name in subcommands(done.stdout):
        check((*command, name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_describes_every_option(name):
    check((program(name),))


def test_an_option_without_description_is_found():
    described = "  --seed UINT=1               seed of the weights\n  --long-option UINT:UINT in [1 - 1024]\n" + (
        " " * COLUMN + "sizes\n")
    assert undescribed(described) == []
    assert undescribed(described + "  SCENARIO TEXT REQUIRED      \n") == ["SCENARIO TEXT REQUIRED"]
    for bare in ("--hidden UINT:UINT in [1 - 16384]", "--vocab UINT:UINT in [5 - 4194304]"):
        assert undescribed(f"{described}  {bare}\n") == [bare]
    assert subcommands("Subcommands:\n  run                         runs\n  plan-all  x\n\nExamples:\n  tool run\n") == [
        "run", "plan-all"]
