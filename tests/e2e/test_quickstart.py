"""The first thing that a user runs: it serves, and leaves nothing behind, also when interrupted."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.appliance import BUILD

QUICKSTART = Path(__file__).parents[2] / "tools" / "quickstart"

pytestmark = pytest.mark.skipif(BUILD.name != "build", reason="quickstart runs what is in build/ only")


def left_behind():
    """Everything of quickstart's that could stay: namespaces, directories, DPDK's files."""
    return {
        "namespaces": sorted(re.findall(r"itif-(?:srv|cli)-\d+\b(?!x)", subprocess.run(
            ("ip", "netns"), capture_output=True, text=True, check=True).stdout)),
        "directories": sorted(str(path) for path in Path("/tmp").glob("itif-quickstart.*")),
        "dpdk": sorted(str(path) for path in Path("/var/run/dpdk").glob("itif-[0-9]*")),
        "pages": sorted(str(path) for path in Path("/dev/hugepages").glob("itif-[0-9]*")),
    }


def reserved_hugepages():
    return int(Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").read_text())


@pytest.fixture(autouse=True)
def nothing_new_is_left():
    """Someone else's quick start may end meanwhile, hence nothing new rather than nothing different."""
    before, pages = left_behind(), reserved_hugepages()
    yield
    after = left_behind()
    assert not {key: set(after[key]) - set(before[key]) for key in after if set(after[key]) - set(before[key])}
    assert reserved_hugepages() <= pages


def test_two_seconds_of_traffic():
    result = subprocess.run((QUICKSTART, "--seconds", "2"), capture_output=True, text=True, timeout=180,
                            check=False)
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    last = result.stdout.strip().splitlines()[-1]
    assert re.fullmatch(r"quickstart: [1-9]\d* requests answered, 0 lost, p50 \d+ us, p99 \d+ us, "
                        r"\d+ requests/s, device \w+ \w+", last), output


def test_two_runs_side_by_side():
    runs = [subprocess.Popen((QUICKSTART, "--seconds", "2"), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    for each in runs:
        output = each.communicate(timeout=240)[0]
        assert each.returncode == 0, output


@pytest.mark.parametrize("seconds", [0.5, 3.0, 8.0])
def test_interrupted_it_removes_what_it_made(seconds):
    process = subprocess.Popen((QUICKSTART, "--seconds", "30"), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               # As in a terminal, even if the tests run where SIGINT is ignored.
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 130, output


def test_without_root_one_line_says_what_to_do():
    result = subprocess.run(("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", QUICKSTART),
                            capture_output=True, text=True, timeout=60, check=False)
    if result.returncode == 126:  # the shell could not even read the script
        pytest.skip("the source tree may not be read by other users here")
    lines = (result.stdout + result.stderr).strip().splitlines()
    assert result.returncode == 1 and len(lines) == 1 and "sudo" in lines[0], lines
