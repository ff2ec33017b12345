"""tools/quickstart serves, and cleans up however it ends."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from harness.appliance import BUILD
from harness.leftovers import QUICKSTART, remove_quickstarts

HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
TRAFFIC = "mixed-length requests"
LAST_LINE = (r"quickstart: [1-9]\d* requests answered, 0 lost, p50 \d+ us, p99 \d+ us, \d+ requests/s, "
             r"device \w+ \w+")

pytestmark = pytest.mark.skipif(BUILD.name != "build", reason="quickstart runs what is in build/ only")


def reserved_hugepages():
    return int(HUGEPAGES.read_text()) if HUGEPAGES.exists() else 0


def others():
    """The tags of quick starts that these tests did not start."""
    return {path.name[-6:] for path in Path("/tmp").glob("itif-quickstart.*")}


def system_state():
    """The tags of quick starts that have namespaces, DPDK directories or mounts on this machine."""
    names = subprocess.run(("ip", "netns"), capture_output=True, text=True, check=True).stdout.split()
    names += [path.name for path in Path("/var/run/dpdk").glob("itif-qs-*")]
    names += Path("/proc/mounts").read_text(encoding="utf-8").split()
    found = (re.search(r"itif-(?:srv-|cli-|qs-|quickstart\.)([A-Za-z0-9]{6})(?:/hugepages)?$", name)
             for name in names)
    return {match[1] for match in found if match and not re.fullmatch(r"\d+x\d+", match[1])}


class Quickstart:
    """Runs quick starts with their directories in one directory of the test."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir(exist_ok=True)
        self.environment = {**os.environ, "TMPDIR": str(directory)}
        self.processes = []

    def start(self, *arguments, prefix=()):
        # Restores default signals, which the tests' environment may ignore (nohup, a background
        # job).
        command = ("env", "--default-signal=HUP,INT,QUIT,TERM", *prefix, QUICKSTART, *arguments)
        self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                               start_new_session=True, env=self.environment))
        return self.processes[-1]

    def start_until(self, marker, *arguments):
        process = self.start(*arguments)
        for line in process.stdout:
            if marker in line:
                return process
        raise AssertionError(f"it ended with status {process.wait()} before '{marker}'")

    def run(self, *arguments, prefix=()):
        """Returns the exit status and the lines."""
        process = self.start(*arguments, prefix=prefix)
        output = process.communicate(timeout=240)[0]
        return process.returncode, output.strip().splitlines()

    def serve(self, *arguments, prefix=()):
        """A run that must succeed; returns its lines."""
        status, lines = self.run("--seconds", "2", *arguments, prefix=prefix)
        assert status == 0 and re.fullmatch(LAST_LINE, lines[-1]), "\n".join(lines)
        return lines

    def directories(self):
        return sorted(self.directory.glob("itif-quickstart.*"))


@pytest.fixture
def quickstart(scratch):
    before, pages, busy = system_state(), reserved_hugepages(), others()
    made = Quickstart(scratch / "quickstart")
    yield made
    for process in made.processes:
        process.terminate()
        process.wait(60)
    left = list(made.directory.iterdir())
    remove_quickstarts(made.directory)
    assert not left
    assert not system_state() - before - others()
    if not busy and not others():
        assert reserved_hugepages() <= pages


def test_two_runs_at_once(quickstart):
    runs = [quickstart.start("--seconds", "2") for _ in range(2)]
    for each in runs:
        output = each.communicate(timeout=240)[0]
        assert each.returncode == 0 and re.fullmatch(LAST_LINE, output.strip().splitlines()[-1]), output


@pytest.mark.parametrize("phase, name, to_all", [
    ("making four models", "SIGINT", True), ("starting itifd", "SIGINT", True), ("STATE", "SIGINT", True),
    (TRAFFIC, "SIGINT", True),
    (TRAFFIC, "SIGTERM", False), (TRAFFIC, "SIGHUP", False)])
def test_it_cleans_up_when_interrupted(quickstart, phase, name, to_all):
    """to_all: the signal goes to all processes, as on Ctrl-C. Else to the script only, as from a service manager."""
    process = quickstart.start_until(phase, "--seconds", "60")
    number = getattr(signal, name)
    (os.killpg if to_all else os.kill)(process.pid, number)
    lines = process.communicate(timeout=60)[0].strip().splitlines()
    assert process.returncode == 128 + number, lines
    assert lines[-1] == "quickstart: interrupted; what it made is removed", lines


def test_a_program_that_ignores_the_first_signal_is_ended(tmp_path):
    """A program that has just been forked may handle the signal in its shell."""
    program = ("""first() { echo missed one; trap "echo ends; exit" TERM; }; trap first TERM; echo started; """
               "while :; do sleep 0.05; done")
    script = tmp_path / "script"
    script.write_text(f". {QUICKSTART.parent}/lib/common.sh\nended() {{ echo \"ended with $1\"; }}\non_end ended\n"
                      f"interruptible sh -c '{program}'\necho 'went on'\n", encoding="utf-8")
    process = subprocess.Popen(("env", "--default-signal=TERM", "bash", str(script)), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    assert process.stdout.readline() == "started\n"
    process.terminate()
    lines = process.communicate(timeout=60)[0].splitlines()
    assert lines == ["missed one", "ends", "ended with 143", "script: interrupted; what it made is removed"]
    assert process.returncode == 143


def test_the_next_run_cleans_up_after_a_killed_one(quickstart):
    process = quickstart.start_until(TRAFFIC, "--seconds", "60")
    process.kill()
    process.communicate(timeout=30)  # itif-loadgen ends with it
    killed, = quickstart.directories()
    assert killed.name[-6:] in system_state()
    strangers = quickstart.directory / "itif-quickstart.Mallet"  # anyone may write in /tmp
    strangers.mkdir()
    (strangers / "record").write_text("owner 1 1\n", encoding="utf-8")
    os.chown(strangers, 65534, 65534)
    lines = quickstart.serve()
    assert [line for line in lines if str(killed) in line and "removing" in line], lines
    assert quickstart.directories() == [strangers]
    subprocess.run(("rm", "-r", strangers), check=True)


def test_with_keep_it_runs_beside_another_until_stopped(quickstart):
    lines = quickstart.serve("--keep")
    directory, = quickstart.directories()
    environment = {**os.environ, "ITIF_ENDPOINT": f"ipc://{directory}/control.sock"}
    health = (str(BUILD / "tools/itifctl/itifctl"), "health")
    assert any(str(directory) in line and "--stop" in line for line in lines)
    quickstart.serve()
    assert subprocess.run(health, env=environment, capture_output=True, check=False).returncode == 0
    assert quickstart.run("--stop", f"{directory}/") == (0, ["quickstart: stopped and removed"])
    assert not directory.exists()
    status, lines = quickstart.run("--stop", str(directory))
    assert status == 1 and len(lines) == 1, lines


def test_it_serves_without_hugepages_and_reports_it(quickstart):
    """A read-only /sys, as in a container."""
    lines = quickstart.serve(prefix=("unshare", "-m", "sh", "-c", 'mount -o remount,bind,ro /sys; exec "$0" "$@"'))
    assert [line for line in lines if "no hugepages" in line and "--no-huge" in line], lines


@pytest.mark.parametrize("backbone", ["vit-tiny", "albert-base", "marian-tiny"])
def test_another_backbone(quickstart, backbone):
    lines = quickstart.serve("--backbone", backbone)
    assert [line for line in lines if f"four models ({backbone}" in line], lines


@pytest.mark.parametrize("arguments", [
    ("--backbone",), ("--backbone", "a b"), ("--seconds",), ("--seconds", "0"), ("--seconds", "5s"), ("--keeep",), ("5",), ("--stop",), ("--stop", "/tmp"),
    ("--stop", "/nowhere")], ids=" ".join)
def test_the_error_for_wrong_arguments_is_one_line(quickstart, arguments):
    status, lines = quickstart.run(*arguments)
    assert status == 1 and len(lines) == 1 and lines[0].startswith("quickstart: "), lines


def test_the_error_without_root_says_what_to_do():
    result = subprocess.run(("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", QUICKSTART),
                            capture_output=True, text=True, timeout=60, check=False)
    if result.returncode == 126:  # the shell could not even read the script
        pytest.skip("the source tree may not be read by other users here")
    lines = (result.stdout + result.stderr).strip().splitlines()
    assert result.returncode == 1 and len(lines) == 1 and "sudo" in lines[0], lines
