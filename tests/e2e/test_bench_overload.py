"""tools/bench-overload measures single cases, for itif-bench overload, and ends cleanly on SIGTERM in the middle of a
load."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from harness.appliance import program
from harness.clients import wait_until

SCRIPT = Path(__file__).parents[2] / "tools" / "bench-overload"


def test_itif_bench_overload_reports_a_case(tmp_path):
    out = tmp_path / "overload.json"
    done = subprocess.run((program("itif-bench"), "overload", "--seconds", "1", "--rounds", "1", "--factor", "0.5", "--case",
                           "0.5x", "--script", str(SCRIPT), "--json", str(out)),
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {(row["case"], row["mode"]): row for row in json.loads(out.read_text(encoding="utf-8"))["rows"]}
    assert set(rows) == {("0.5x", mode) for mode in ("in time", "offered", "repeated", "p99")}, done.stdout
    assert rows["0.5x", "in time"]["value"] > 0, done.stdout


def test_sigterm_leaves_nothing(tmp_path):
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(("/usr/bin/python3", SCRIPT, "--case", "1x, quiet beside", "--rounds", "1", "--seconds",
                                    "30"), stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        try:
            wait_until(lambda: "capacity: " in out.read_text(encoding="utf-8") or process.poll() is not None,
                       lambda: f"the load begins: {out.read_text()}{err.read_text()}", 120)
            time.sleep(3)
            assert process.poll() is None, err.read_text(encoding="utf-8")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert err.read_text(encoding="utf-8") == "bench-overload: ended by SIGTERM, before its figures were complete\n"
    names = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=True).stdout
    assert f"o{process.pid}" not in names, names
    left = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if f"o{process.pid}" in command_line(pid)]
    assert not left, left


def command_line(pid):
    try:
        return Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
