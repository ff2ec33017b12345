"""The machine and commit that benches record beside their figures, and the time that a hypervisor took away."""

import json
import os
import platform
import signal
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": cpu, "cpus": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release()}


def commit():
    result = subprocess.run(["git", "-C", str(TOP), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def write_json(path, bench, rows):
    """Writes the rows in the format of itif-bench."""
    document = {"bench": bench, "commit": commit(), "machine": machine(), "device": "host", "rows": rows}
    Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


class Terminated(SystemExit):
    """SIGTERM came."""


def starts_program(frame):
    """True if the frame, or a caller of it, is the start of a program."""
    while frame is not None and frame.f_code is not subprocess.Popen.__init__.__code__:
        frame = frame.f_back
    return frame is not None


def clean_up_at_sigterm(with_parent=False):
    """Lets the first SIGTERM end the program as an exception does, so that it stops what it has started. with_parent:
    as well as the end of the parent process, which is checked every second."""
    came = []

    def end(_, frame):
        if came:  # another one must not interrupt the cleaning up
            return
        if starts_program(frame):  # try again when its caller knows the program, and can stop it
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            return
        came.append(True)
        raise Terminated(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    if not with_parent:
        return
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def cpu_times():
    """Ticks of all CPUs since the machine started: in total, and those that the hypervisor gave to others (steal)."""
    ticks = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[7]


def steal_share(before, after):
    """The share of CPU time that was stolen between two results of cpu_times()."""
    return (after[1] - before[1]) / max(1, after[0] - before[0])
