"""tools/bench-swap ends cleanly on SIGTERM, while a tenant is added and removed beside the load."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.clients import wait_until
from harness.processes import command_lines

SCRIPT = Path(__file__).parents[2] / "tools" / "bench-swap"
RUN_SECONDS = 3


# At the start, and in a run with changes, which follows one without.
@pytest.mark.parametrize("seconds", [0, RUN_SECONDS + 4])
def test_sigterm_leaves_nothing(tmp_path, seconds):
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(("/usr/bin/python3", SCRIPT, "--case", "bert-tiny 32 tokens while bert-tiny changes",
                                    "--mode", "with changes", "--every", "0.1", "--rounds", "20", "--seconds",
                                    str(RUN_SECONDS)),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                   env={**os.environ, "TMPDIR": str(tmp_path)})
        try:
            wait_until(lambda: "/s:" in out.read_text(encoding="utf-8"),
                       lambda: f"the load begins: {out.read_text()}{err.read_text()}", 90)
            time.sleep(seconds)
            assert process.poll() is None, err.read_text(encoding="utf-8")
            process.send_signal(signal.SIGTERM)
            # As the end of itif-bench and the watch of the parent process do.
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert err.read_text(encoding="utf-8") == "bench-swap: ended by SIGTERM, before its figures were complete\n"
    names = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=True).stdout
    assert f"w{process.pid}" not in names, names
    left = [line for line in command_lines() if f"swap-{process.pid}-" in line or f"w{process.pid}" in line]
    assert not left, left
