"""DPDK's tools on a running appliance: dpdk-telemetry.py and dpdk-dumpcap."""

import contextlib
import json
import signal
import subprocess


def telemetry(appliance, command):
    """The answer of dpdk-telemetry.py to a command, or None if telemetry is off."""
    result = subprocess.run(("/usr/bin/python3", "/usr/bin/dpdk-telemetry.py", "-f", appliance.prefix),
                            input=f"{command}\n", capture_output=True, text=True, timeout=20, check=False)
    if "Error connecting to" in result.stdout + result.stderr:
        return None
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout[result.stdout.index('{"/'):].splitlines()[0])[command.split(",")[0]]


class Dumpcap:
    """A running dpdk-dumpcap."""

    def __init__(self, appliance, path):
        self.output = ""
        self._process = subprocess.Popen(
            ("dpdk-dumpcap", f"--file-prefix={appliance.prefix}", "-i", appliance.port["device"], "-w", str(path)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True)

    def alive(self):
        return self._process.poll() is None

    def stop(self):
        """Sends SIGINT and returns the exit status."""
        if self.alive():
            self._process.send_signal(signal.SIGINT)
        try:
            self.output += self._process.communicate(timeout=10)[0] or ""
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.output += self._process.communicate()[0] or ""
        return self._process.returncode


@contextlib.contextmanager
def dumpcap(appliance, path):
    running = Dumpcap(appliance, path)
    try:
        yield running
    finally:
        if running.alive():
            running.stop()
