"""Processes that are no children of the tests, such as those that a handover starts."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waitpid also for threads


def adopt_orphans():
    """Makes processes whose parent ends children of this one, so that it can wait for them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _all_children_of(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in task.read_text(encoding="utf-8").split()]
        except OSError:
            pass
    return found


def _checks_models(pid):
    try:
        return "--check-models" in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    except OSError:
        return False


def children_of(pid):
    """The children of an itifd, without its checker of models."""
    return [child for child in _all_children_of(pid) if not _checks_models(child)]


def checkers_of(pid):
    return [child for child in _all_children_of(pid) if _checks_models(child)]


def command_lines():
    """The command lines of all processes, with a space after each argument."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return lines


def each_thread(pid, read):
    """The results of `read` for each thread's directory in /proc. Threads that end meanwhile are left out."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(read(task))
    return found


def name_of(task):
    return (task / "comm").read_text(encoding="utf-8").strip()


def threads_of(pid, name):
    """The threads of a process whose names begin so."""
    named = each_thread(pid, lambda task: (int(task.name), name_of(task)))
    return [thread for thread, its_name in named if its_name.startswith(name)]


@contextlib.contextmanager
def stopped_thread(thread):
    """Stops one thread of another process. Errors: PermissionError if the machine does not allow ptrace."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4

    def ptrace(request):
        if libc.ptrace(request, thread, 0, 0) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    ptrace(PTRACE_SEIZE)
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH)


class AdoptedProcess:
    """As much of subprocess.Popen as Appliance uses, for an orphan that adopt_orphans() made a child."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds=60):
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), seconds)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)
