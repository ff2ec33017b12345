"""Removes the processes, namespaces and files of killed test runs."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

QUICKSTART = Path(__file__).parents[3] / "tools" / "quickstart"


def hugetlbfs_mounts():
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return [Path(fields[1]) for fields in map(str.split, lines) if fields[2] == "hugetlbfs"]


def remove_dpdk_files(prefix):
    """Removes the files of DPDK processes whose --file-prefix matches the pattern `prefix`."""
    for mount in hugetlbfs_mounts():
        for path in mount.glob(f"{prefix}map_*"):
            path.unlink(missing_ok=True)
    for path in Path("/var/run/dpdk").glob(prefix):
        shutil.rmtree(path, ignore_errors=True)


def remove_quickstarts(directory):
    """Ends kept and killed quick starts in a directory, and removes the directory unless others still run in it."""
    for record in Path(directory).glob("itif-quickstart.*/record"):
        subprocess.run((QUICKSTART, "--stop", record.parent), capture_output=True, check=False)
    if not any(Path(directory).glob("itif-quickstart.*/record")):
        shutil.rmtree(directory, ignore_errors=True)


def _ip(*arguments):
    return subprocess.run(("ip", *arguments), capture_output=True, text=True, check=False).stdout.split()


def _dead(paths, pattern):
    """(name, process id) of the names that contain the id of a test run that has ended."""
    for name in paths:
        found = re.fullmatch(pattern, name)
        if found and not Path("/proc", found[1]).exists():
            yield name, found[1]


def remove_leftovers():
    gone = set()
    for namespace, pid in _dead(_ip("netns"), r"itif-(?:srv|cli|mid)-(\d+)x\d+"):
        gone.add(pid)
        for process in _ip("netns", "pids", namespace):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        _ip("netns", "del", namespace)
    for name, pid in _dead(os.listdir("/tmp"), r"itif-e2e-(\d+)"):
        gone.add(pid)
        quickstarts = Path("/tmp", name, "quickstart")
        remove_quickstarts(quickstarts)
        if not quickstarts.exists():
            shutil.rmtree(f"/tmp/{name}", ignore_errors=True)
    for pid in gone:
        remove_dpdk_files(f"itif-e2e-{pid}x*")
