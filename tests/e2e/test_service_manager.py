"""Messages to the service manager, as systemd gets them, over a handover, too."""

import os
import signal
import socket
import threading
import time

import pytest
from harness.clients import wait_until


class Manager:
    """A datagram socket that listens where NOTIFY_SOCKET points, as systemd does all the time. Knows the sender of each
    message."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(path))
        self.socket.settimeout(0.05)
        self.messages = []  # (pid, {name: value})
        self.ended = False
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        while not self.ended:
            try:
                data, ancillary, *_ = self.socket.recvmsg(4096, 256)
            except TimeoutError:
                continue
            pid = int.from_bytes(ancillary[0][2][:4], "little")
            lines = data.decode("utf-8").splitlines()
            self.messages.append((pid, dict(line.split("=", 1) for line in lines)))

    def end(self):
        self.ended = True
        self.thread.join()
        self.socket.close()

    def of(self, name, pid=None):
        return [fields[name] for sender, fields in list(self.messages) if name in fields and pid in (None, sender)]

    def wait_for(self, name, count=1, pid=None):
        wait_until(lambda: len(self.of(name, pid)) >= count, f"{count} times {name}=", 20)


@pytest.fixture
def managed(new_appliance):
    appliance = new_appliance()
    path = appliance.directory / "notify.sock"
    manager = Manager(path)
    appliance.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}
    yield appliance, manager
    manager.end()


def test_ready_watchdog_reload_and_stop(managed, models):
    appliance, manager = managed
    appliance.start()
    manager.wait_for("READY")
    pid = appliance.process.pid
    appliance.add_tenant("t", models())
    manager.wait_for("WATCHDOG", 10)
    assert {sender for sender, _ in manager.messages} == {pid}
    assert int(manager.of("EXTEND_TIMEOUT_USEC")[0]) > 1_000_000, "during the start"
    assert not manager.of("STOPPING")
    appliance.process.send_signal(signal.SIGHUP)
    manager.wait_for("RELOADING")
    manager.wait_for("READY", 2)
    assert int(manager.of("MONOTONIC_USEC")[0]) <= time.monotonic_ns() // 1000
    assert appliance.stop() == 0
    manager.wait_for("STOPPING")


def test_the_watchdog_hears_nothing_from_a_stopped_process(managed):
    appliance, manager = managed
    appliance.start()
    manager.wait_for("WATCHDOG", 3)
    appliance.process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    before = len(manager.of("WATCHDOG"))
    time.sleep(1)
    assert len(manager.of("WATCHDOG")) == before
    appliance.process.send_signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG", before + 2)


def test_a_handover_names_the_new_main_process(managed, models):
    appliance, manager = managed
    appliance.start()
    manager.wait_for("WATCHDOG")
    old = appliance.process.pid
    appliance.add_tenant("t", models())
    new = appliance.handover()["pid"]
    manager.wait_for("MAINPID")
    assert manager.of("MAINPID") == [str(new)] and manager.of("MAINPID", old)
    assert not manager.of("STOPPING"), "the service goes on"
    before = len(manager.of("WATCHDOG", new))
    manager.wait_for("WATCHDOG", before + 4, new)
    assert appliance.stop() == 0
    manager.wait_for("STOPPING", pid=new)


def test_the_watchdog_of_another_process_is_left_alone(managed):
    appliance, manager = managed
    appliance.environment["WATCHDOG_PID"] = str(os.getpid())
    appliance.start()
    manager.wait_for("READY")
    time.sleep(0.6)
    assert not manager.of("WATCHDOG")


def test_a_service_manager_that_does_not_listen_stops_nothing(new_appliance, models):
    appliance = new_appliance()
    appliance.environment = {"NOTIFY_SOCKET": str(appliance.directory / "nobody"), "WATCHDOG_USEC": "100000"}
    appliance.start()
    appliance.add_tenant("t", models())
    assert appliance.log().count("to the service manager") == 1, "once"
    assert appliance.stop() == 0
