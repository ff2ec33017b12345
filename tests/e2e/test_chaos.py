"""Clients that are killed, links that flap, packet buffers and disks that run out, clocks that jump: itifd serves on,
loses nothing of others, and holds nothing afterwards.

Other tests cover the rest: killed daemons (test_lifecycle.py, test_handover.py), no hugepages and a disk that is full
(test_startup.py), a full log pipe (test_log.py), a device that fails during a batch (test_cuda_device.py), hostile and
half-sent datagrams (test_hostile.py), floods (test_fairness.py), and lost frames (test_impaired.py).
"""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.appliance import program
from harness.clients import Golden, Traffic, assert_accounted, connect, wait_until
from harness.handover import F32, IDS, add_tenants, nothing_lost, same_answers, start_loadgen
from harness.namespaces import CLIENT_IPV4, SERVER_IPV4, run

HALF_SENDER = Path(__file__).parent / "harness" / "half_sender.py"


@pytest.fixture
def patient(new_appliance):
    """An appliance, not started, that computes in f32 and refuses nothing because of a wait."""
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32"}
    made.sections["batching"] = {"max_wait": "0s"}
    return made


def in_client(namespaces):
    return ("ip", "netns", "exec", namespaces.client)


def start_patient_loadgen(appliance, namespaces, requests, rate):
    """A load that repeats unanswered requests for a minute, and refused ones. `finish` returns its total."""
    report = appliance.directory / "loadgen.json"
    process = subprocess.Popen(
        (*in_client(namespaces), program("itif-loadgen"), SERVER_IPV4, "--tenants",
         str(appliance.directory / "tenants.json"), "--rate", str(rate), "--requests", str(requests), "--duration",
         "10m", "--lengths", "uniform:8-64", "--tries", "60", "--timeout", "60s", "--drain", "60s",
         "--refusal-retries", "100", "--quiet", "--json", str(report)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish():
        output, _ = process.communicate(timeout=150)
        assert report.exists(), output
        return json.loads(report.read_text(encoding="utf-8"))["total"]

    return process, finish


def problems(appliance):
    return appliance.ctl_json("health", check=False)["appliance"]["problems"]


def assert_nothing_is_held(appliance, seconds=20, ports=True):
    """No request, context or packet buffer is held after the load."""
    wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 0, "no request is in flight", seconds)
    wait_until(lambda: appliance.ctl_json("stats")["datagrams"]["contexts"] == 0, "contexts are released", seconds)
    assert appliance.ctl_json("stats")["datagrams"]["held_bytes"] == 0
    wait_until(lambda: all(port["mbufs_in_use"] == 0 for port in appliance.ctl_json("drops")["ports"]),
               lambda: f"packet buffers in use: {appliance.ctl_json('drops')['ports']}", seconds)
    return assert_accounted(appliance, 10, ports=ports)


# ---- clients and peers that are killed


def test_clients_killed_in_mid_request(patient, namespaces, models):
    """Clients whose requests have many pieces are killed again and again. Another client notices nothing."""
    appliance = patient.start()
    steady, killed = add_tenants(appliance, models)
    tenant_file = appliance.directory / "killed.json"
    tenant_file.write_text(json.dumps(killed), encoding="utf-8")
    with connect(namespaces, steady) as client, Traffic(client) as traffic:
        traffic.wait_for(5)
        for _ in range(5):
            before = appliance.ctl_json("drops")["total"]["received"]
            process = subprocess.Popen(
                (*in_client(namespaces), program("itif-loadgen"), SERVER_IPV4, "--tenants", str(tenant_file),
                 "--concurrency", "64", "--lengths", "fixed:300", "--fragment-bytes", "64", "--quiet"),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: appliance.ctl_json("drops")["total"]["received"] > before + 500, "requests arrive", 30)
            assert process.poll() is None
            process.kill()
            process.wait()
            traffic.wait_for(3)
    assert not traffic.losses and not traffic.refusals, (traffic.losses, traffic.refusals)
    assert same_answers(traffic.answers) >= 20
    assert_nothing_is_held(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_memif_peers_killed_under_load(patient, models):
    """The next peer connects and gets every answer."""
    appliance = patient
    appliance.use_port("net_memif0", "role=server,rsize=11,socket-abstract=no,"
                       f"socket={appliance.directory}/memif.sock")
    appliance.start(link="down")
    add_tenants(appliance, models)
    options = ("--local-ip", CLIENT_IPV4, "--eal",
               f"--no-pci --no-huge -m 256 --no-telemetry --file-prefix={appliance.prefix}-peer "
               f"--vdev=net_memif0,role=client,rsize=11,socket-abstract=no,socket={appliance.directory}/memif.sock")
    try:
        for _ in range(3):
            answered = appliance.ctl_json("stats")["total"]["answered"]
            process, _ = start_loadgen(appliance, *options, requests=100_000, rate=1000)
            wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > answered + 50, "the load runs", 30)
            process.kill()
            process.communicate()
            wait_until(lambda: appliance.ctl("health", check=False).returncode == 1, "the peer has left")
        _, finish = start_loadgen(appliance, *options, requests=300)
        nothing_lost(finish())
    finally:
        subprocess.run(("rm", "-rf", f"/var/run/dpdk/{appliance.prefix}-peer"), check=False)
    # net_memif resets its counters when a peer leaves.
    assert_nothing_is_held(appliance, ports=False)
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_a_killed_memif_server_starts_again(patient):
    """The killed process leaves its socket, which the driver does not replace."""
    appliance = patient.use_port("net_memif0", "role=server,rsize=11,socket-abstract=no,"
                                 f"socket={patient.directory}/memif.sock")
    for _ in range(2):
        appliance.start(link="down")
        appliance.kill()
        assert (appliance.directory / "memif.sock").exists()
    appliance.start(link="down")
    assert appliance.stop() == 0


# ---- a link that flaps


@pytest.mark.parametrize("end", ["server", "client"])
def test_a_link_that_flaps_under_load(patient, namespaces, models, end):
    appliance = patient.start()
    added = add_tenants(appliance, models, 1)[0]
    namespace, link = ((namespaces.server, namespaces.server_link) if end == "server" else
                       (namespaces.client, namespaces.client_link))
    _, finish = start_patient_loadgen(appliance, namespaces, requests=4000, rate=300)
    wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > 100, "the load runs", 30)
    try:
        for _ in range(4):
            run("ip", "-n", namespace, "link", "set", link, "down")
            wait_until(lambda: problems(appliance) == ["port net_af_packet0: link down"], "health shows the link", 5)
            run("ip", "-n", namespace, "link", "set", link, "up")
            wait_until(lambda: problems(appliance) == [], "health shows the link", 5)
            answered = appliance.ctl_json("stats")["total"]["answered"]
            wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > answered + 20, "answers again", 30)
    finally:
        run("ip", "-n", namespace, "link", "set", link, "up")
    total = finish()
    assert total["answered"] == total["sent"] == 4000, total
    with connect(namespaces, added) as client:
        client.infer_tokens(IDS)
    assert_nothing_is_held(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_an_interface_that_is_removed_is_named(patient, namespaces):
    """The port stays bound to the interface that it opened. One of the same name that is made later is another one."""
    appliance = patient.use_port("net_af_packet0", "iface=gone0,blocksz=65536,framesz=2048,framecnt=2048")
    make = ("ip", "-n", namespaces.server, "link", "add", "gone0", "type", "veth", "peer", "name", "gone1")
    remove = ("ip", "-n", namespaces.server, "link", "del", "gone0")

    def make_interface():
        run(*make)
        for end in ("gone0", "gone1"):
            run("ip", "-n", namespaces.server, "link", "set", end, "up")

    make_interface()
    try:
        appliance.start()
        removed = ["port net_af_packet0: its interface was removed: make it, and restart itifd"]
        run("ip", "-n", namespaces.server, "link", "set", "gone0", "down")
        wait_until(lambda: "net_af_packet0: link down" in appliance.log(), "the link is down", 5)
        run(*remove)
        wait_until(lambda: problems(appliance) == removed, "health names the interface", 5)
        assert appliance.ctl("health", check=False).returncode == 1
        wait_until(lambda: removed[0] in appliance.log(), "the log names the interface", 5)
        make_interface()
        assert problems(appliance) == removed
        appliance.kill()
        appliance.start()
        assert problems(appliance) == []
        assert appliance.stop() == 0
    finally:
        subprocess.run(remove, stderr=subprocess.DEVNULL, check=False)


# ---- packet buffers that run out


MBUFS = 1024  # the fewest that the configuration allows


def test_packet_buffers_that_run_out(patient, namespaces, models):
    """Half-sent requests take the packet buffers that requests may hold, two thirds of the pool, beside long answers.
    Refusals name it, receiving and sending go on, and a tenant that sends little is answered.

    tests/unit/net/transmit_test.cc empties the pool itself.
    """
    appliance = patient
    appliance.port |= {"rx_descriptors": 64, "tx_descriptors": 64}
    appliance.sections["data_plane"] |= {"mbufs": MBUFS, "reassembly_timeout": "3s"}
    appliance.start()
    steady, *greedy = add_tenants(appliance, models, 4)
    senders = []
    with connect(namespaces, steady) as client:
        client.max_silent_tries = 50
        client.infer_tokens(IDS, "logits")
        for number, added in enumerate(greedy):
            tenant_file = appliance.directory / f"greedy{number}.json"
            tenant_file.write_text(json.dumps(added), encoding="utf-8")
            senders.append(subprocess.Popen(
                (*in_client(namespaces), sys.executable, str(HALF_SENDER), SERVER_IPV4, str(tenant_file), "4000")))
        senders.append(subprocess.Popen(
            (*in_client(namespaces), program("itif-loadgen"), SERVER_IPV4, "--tenants", str(tenant_file), "--rate",
             "200", "--lengths", "fixed:300", "--result", "hidden", "--duration", "10m", "--quiet"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        try:
            def refused():
                dropped = appliance.ctl_json("drops")["total"]["dropped"]
                return dropped.get("held_bytes_full", 0) + dropped.get("tenant_held_bytes_full", 0)

            most = 0

            def buffers_run_out():
                nonlocal most
                most = max(most, appliance.ctl_json("drops")["ports"][0]["mbufs_in_use"])
                return refused() > 300 and most > MBUFS // 3

            wait_until(buffers_run_out, lambda: f"{most} of {MBUFS}: {appliance.ctl_json('drops')['total']}", 60)
            for turn in range(30):
                assert client.infer_tokens([101, 1000 + turn, 102], "logits", timeout_s=20).payload
            assert all(sender.poll() is None for sender in senders)
        finally:
            for sender in senders:
                sender.kill()
                sender.wait()
        assert_nothing_is_held(appliance)
        for turn in range(30):
            assert client.infer_tokens([101, 1000 + turn, 102], "logits").payload
    with connect(namespaces, greedy[0]) as client:
        assert client.infer_tokens([101] + [2000] * 200 + [102], "hidden").payload
    assert appliance.stop() == 0, appliance.log()[-3000:]


# ---- a disk that is full


def fill(path):
    """Fills a file system to its last byte."""
    with open(path, "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass


def test_a_disk_that_fills_under_load(patient, namespaces, models):
    """Registry and log share a full file system. Each kind of change fails by name and changes nothing; requests are
    answered. After room is made, changes and the log work again, and a restart finds every acknowledged change."""
    appliance = patient
    disk = appliance.directory / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(disk))
    log = disk / "itifd.log"
    try:
        appliance.sections["control"]["state_dir"] = str(disk / "state")
        appliance.sections["telemetry"]["log_file"] = str(log)
        appliance.start()
        added = add_tenants(appliance, models)[0]
        with connect(namespaces, added) as client, Traffic(client) as traffic:
            traffic.wait_for(5)
            fill(disk / "filler")
            # SQLite's allocated pages hold some more changes.
            wait_until(lambda: appliance.ctl("tenant", "add", f"x{time.monotonic_ns()}", "--model",
                                             str(models(seed=1)), check=False).returncode != 0, "the disk is full", 60)
            fill(disk / "filler")
            before = appliance.ctl_json("tenant", "list")
            for command in (("tenant", "add", "new", "--model", str(models(seed=1))),
                            ("tenant", "update", "t1", "--weight", "7"), ("tenant", "rotate-key", "t0"),
                            ("tenant", "pause", "t1"), ("tenant", "remove", "t1")):
                failed = appliance.ctl(*command, check=False)
                message = (failed.stdout + failed.stderr).strip()
                assert failed.returncode == 1 and len(message.splitlines()) == 1, (command, message)
                assert "full" in message or "space" in message, (command, message)
            assert appliance.ctl_json("tenant", "list") == before, "a refused change changes nothing"
            traffic.wait_for(20)
            fill(log)  # the rest of its last block
            appliance.process.send_signal(signal.SIGHUP)  # logs a line
            wait_until(lambda: appliance.ctl_json("stats")["lost_log_lines"] > 0, "log lines are lost, and counted")
            (disk / "filler").unlink()
            appliance.process.send_signal(signal.SIGHUP)
            appliance.ctl("tenant", "update", "t1", "--weight", "7")
            after = appliance.add_tenant("after", models(seed=3))
            wait_until(lambda: "lines of this log are lost" in log.read_text(encoding="utf-8"), "the log says so")
            with connect(namespaces, after) as other:
                other.infer_tokens(IDS)
            traffic.wait_for(20)
            traffic.stop()
            assert not traffic.losses and not traffic.refusals, (traffic.losses, traffic.refusals)
            same_answers(traffic.answers)
        listed = appliance.ctl_json("tenant", "list")
        appliance.kill()
        fill(disk / "filler")
        appliance.start()
        names = lambda document: {(each["name"], each["weight"]) for each in document["tenants"]}
        assert names(appliance.ctl_json("tenant", "list")) == names(listed), "a full disk prevents no restart"
        with connect(namespaces, added) as client:
            client.infer_tokens(IDS)
        assert appliance.stop() == 0, appliance.log()[-3000:]
    finally:
        appliance.kill()
        subprocess.run(("umount", "-l", str(disk)), check=False)


# ---- a clock that jumps

# Adds the number of seconds in a file to the time of day. The monotonic clocks stay as they are:
# the kernel never lets them jump.
JUMPING_CLOCK = """
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile int64_t *offset;
__attribute__((constructor)) static void map_offset(void) {
  int fd = open(getenv("CLOCK_OFFSET"), O_RDONLY);
  void *at = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  offset = at == MAP_FAILED ? NULL : at;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (at) *at = exact.tv_sec;
  return exact.tv_sec;
}
"""
DAY = 86400


def test_a_clock_that_jumps_under_load(patient, namespaces, models):
    """Only the times of changes and events follow the time of day: requests, deadlines, sessions, address tokens and
    intervals use the monotonic clock."""
    appliance = patient
    library, offset = appliance.directory / "clock.so", appliance.directory / "offset"
    subprocess.run(("cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"), input=JUMPING_CLOCK, text=True,
                   check=True)
    offset.write_bytes(bytes(8))
    appliance.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}
    appliance.start()
    golden = Golden("plain-f32")
    added = appliance.add_tenant("golden", golden.directory)
    steady = add_tenants(appliance, models, 1)[0]

    def jump(seconds):
        with open(offset, "r+b") as file:
            file.write(struct.pack("<q", seconds))

    def updated():
        appliance.ctl("tenant", "update", "t0", "--weight", str(2 + time.monotonic_ns() % 7))
        return appliance.ctl_json("tenant", "show", "t0")["tenant"]["updated_unix_ns"] / 1e9

    with connect(namespaces, steady) as client, connect(namespaces, added) as checked, Traffic(client) as traffic:
        traffic.wait_for(5)
        uptime = appliance.ctl_json("stats")["uptime_s"]
        for seconds in (DAY, -2 * DAY, 30 * 365 * DAY, -int(time.time()) + 10, 0):
            jump(seconds)
            traffic.wait_for(20)
            for case in golden.cases[:3]:
                golden.check(checked, case, F32)
            ids = golden.cases[0]["ids"]
            assert checked.infer_tokens(ids, budget_us=10_000_000).payload, "the deadline is 10 s away"
            assert abs(updated() - (time.time() + seconds)) < 5, "the library changes itifd's time of day"
            after = appliance.ctl_json("stats")["uptime_s"]
            assert uptime <= after < uptime + 60, "the uptime does not jump"
            uptime = after
        # The new process starts at another time of day than the old one.
        jump(-DAY)
        appliance.handover()
        traffic.wait_for(20)
        traffic.stop()
        assert not traffic.losses and not traffic.refusals, (traffic.losses, traffic.refusals)
        same_answers(traffic.answers)
    assert_nothing_is_held(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]
    jump(-2 * DAY)  # before the times in the registry
    appliance.start()
    with connect(namespaces, steady) as client:
        client.infer_tokens(IDS)
    assert appliance.stop() == 0, appliance.log()[-3000:]


# ---- the daemon, killed under load


def test_itifd_killed_under_load(patient, namespaces, models):
    """Several clients send on while itifd is killed and started again. Each request is answered; the only refusals are
    those while the models load."""
    appliance = patient.start()
    add_tenants(appliance, models)
    process, finish = start_patient_loadgen(appliance, namespaces, requests=5000, rate=250)
    for _ in range(2):
        wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > 200, "the load runs", 30)
        os.kill(appliance.process.pid, signal.SIGKILL)
        appliance.process.wait(10)
        appliance.start()
    assert process.poll() is None, "the load ended before the restarts"
    total = finish()
    assert total["lost"] == 0 and total["answered"] + total["refused"] == total["sent"] == 5000, total
    assert set(total["refused_by_status"]) <= {"not_admitted"}, total
    assert_nothing_is_held(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]
