"""The log's reader never stops itifd: a pipe that nobody reads, a closed one. SIGHUP opens the log file again."""

import fcntl
import os
import signal

import pytest
from harness.clients import Traffic, connect, wait_until

REQUESTS = 20


@pytest.fixture
def pipe():
    ends = list(os.pipe())
    yield ends
    for end in ends:
        if end is not None:
            os.close(end)


def fill(end):
    """Writes into a pipe until it is full. Other writers would wait from then on."""
    os.set_blocking(end, False)
    written = 0
    try:
        while True:
            written += os.write(end, b"." * 512)
    except BlockingIOError:
        pass
    os.set_blocking(end, True)
    return written


def read_available(end):
    os.set_blocking(end, False)
    read = b""
    try:
        while part := os.read(end, 65536):
            read += part
    except BlockingIOError:
        pass
    return read.decode("utf-8", "replace")


def assert_serves_and_obeys(appliance, namespaces, models, name):
    """Adds, serves and removes a tenant; every step logs."""
    added = appliance.add_tenant(name, models())
    with connect(namespaces, added) as client:
        for turn in range(REQUESTS):
            assert client.infer_tokens([101, 1000 + turn, 102], "logits").payload
    appliance.ctl("tenant", "remove", name)


def test_a_log_that_nobody_reads_stops_nothing(new_appliance, namespaces, models, pipe):
    reader, writer = pipe
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    filled = fill(writer)
    appliance = new_appliance()
    appliance.output = writer
    appliance.start()
    assert_serves_and_obeys(appliance, namespaces, models, "unread")
    lost = appliance.ctl_json("stats")["lost_log_lines"]
    assert lost >= 3, "start, tenant and group are logged"
    assert f"lost lines of itifd's log: {lost}" in appliance.ctl("stats").stdout
    assert len(read_available(reader)) == filled, "nothing was written into the full pipe"
    appliance.process.send_signal(signal.SIGHUP)  # logs a line
    text = ""

    def the_loss_is_reported():
        nonlocal text
        text += read_available(reader)
        return "SIGHUP" in text

    wait_until(the_loss_is_reported, "the log is written again")
    assert f"{lost} lines of this log are lost" in text.splitlines()[0], text
    assert appliance.ctl_json("stats")["lost_log_lines"] == lost, "none since"
    fill(writer)
    assert appliance.stop() == 0


def test_a_log_whose_reader_has_died_stops_nothing(new_appliance, namespaces, models, pipe):
    appliance = new_appliance()
    appliance.output = pipe[1]
    appliance.start()
    os.close(pipe[0])
    pipe[0] = None
    assert_serves_and_obeys(appliance, namespaces, models, "deaf")
    assert appliance.ctl_json("stats")["lost_log_lines"] >= 1
    assert appliance.stop() == 0


def test_a_handover_with_a_log_that_nobody_reads(new_appliance, namespaces, models, pipe):
    appliance = new_appliance()
    appliance.output = pipe[1]
    fill(pipe[1])
    appliance.start()
    added = appliance.add_tenant("moved", models())
    with connect(namespaces, added) as client, Traffic(client) as traffic:
        wait_until(lambda: traffic.answers, "requests are answered")
        appliance.handover()
        before = len(traffic.answers)
        wait_until(lambda: len(traffic.answers) > before, "the new process answers")
    assert appliance.stop() == 0


def test_without_standard_error_no_other_file_gets_the_log(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.launch(("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
    wait_until(lambda: appliance.ctl("health", check=False).returncode == 0, "itifd serves", 30)
    assert_serves_and_obeys(appliance, namespaces, models, "mute")
    for number in (0, 1, 2):
        assert os.readlink(f"/proc/{appliance.process.pid}/fd/{number}") == "/dev/null"
    assert appliance.stop() == 0


def test_sighup_opens_the_log_file_again(new_appliance, namespaces, models):
    appliance = new_appliance()
    path = appliance.directory / "rotated.log"
    appliance.sections["telemetry"]["log_file"] = str(path)
    appliance.start()
    appliance.add_tenant("t", models())
    assert "ready" in path.read_text(encoding="utf-8") and appliance.log() == ""
    rotated = path.rename(path.with_suffix(".1"))
    appliance.process.send_signal(signal.SIGHUP)
    wait_until(path.exists, "the log file is made again")
    appliance.ctl("tenant", "remove", "t")
    wait_until(lambda: "SIGHUP" in path.read_text(encoding="utf-8"), "the new file gets the log")
    assert "SIGHUP" not in rotated.read_text(encoding="utf-8")
    appliance.handover()
    assert appliance.process.poll() is None
    wait_until(lambda: "the process before this one has ended" in path.read_text(encoding="utf-8"),
               "the new process logs into the file")
    path.unlink()
    path.mkdir()
    appliance.process.send_signal(signal.SIGHUP)
    assert appliance.ctl("health").returncode == 0
    assert appliance.stop() == 0


def test_sighup_without_a_log_file_changes_nothing(appliance):
    appliance.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "there is no file to open again" in appliance.log(), "SIGHUP is logged")
    assert appliance.ctl("health").returncode == 0


def test_a_log_file_that_cannot_be_opened_is_refused(new_appliance):
    appliance = new_appliance()
    appliance.sections["telemetry"]["log_file"] = str(appliance.directory / "missing" / "itifd.log")
    status, output = appliance.run_to_the_end()
    assert status == 1 and "telemetry.log_file" in output and "missing/itifd.log" in output
    appliance.sections["telemetry"]["log_file"] = "itifd.log"
    status, output = appliance.run_to_the_end()
    assert status == 1 and "telemetry.log_file: 'itifd.log' is not an absolute path" in output
