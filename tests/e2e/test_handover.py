"""`itifctl handover`: a new itifd takes over from the running one. No request is lost; a failure changes nothing."""

import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.appliance import program
from harness.clients import Golden, Traffic, connect, dropped, wait_until
from harness.handover import F32, IDS, LONG, add_tenants, failing, goes_on, nothing_lost, same_answers, start_loadgen
from harness.namespaces import CLIENT_IPV4
from harness.processes import children_of, stopped_thread, threads_of


@pytest.fixture
def served(new_appliance):
    """A running appliance over the veth that computes in f32."""
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32"}
    made.sections["batching"] = {"max_wait": "0s"}  # refuse nothing, even on a slow machine
    made.sections["telemetry"] = {"log_level": "info"}
    return made.start()


def test_no_request_is_lost_over_veth(served, namespaces, models):
    appliance = served
    added = add_tenants(appliance, models)
    appliance.ctl("tenant", "update", "t1", "--weight", "3", "--slo", "2s")
    appliance.ctl("tenant", "update", "t1", "--model", str(models(seed=7)))
    before = {each["name"]: each for each in appliance.ctl_json("tenant", "list")["tenants"]}
    enter = ("ip", "netns", "exec", namespaces.client)
    first = appliance.process.pid
    with connect(namespaces, added[0]) as client, Traffic(client) as traffic:
        traffic.wait_for(20)
        process, finish = start_loadgen(appliance, enter=enter, requests=LONG)
        time.sleep(1)
        answer = appliance.handover()
        assert answer["pid"] != first and answer["drained"] and answer["in_flight"] == 0
        assert process.poll() is None, "the load ended before the handover"
        traffic.wait_for(20)
        # A second one, from the process that took over.
        again = appliance.handover()
        assert again["pid"] not in (first, answer["pid"])
        traffic.wait_for(20)
        nothing_lost(finish(stop=True))
        traffic.stop()
        assert not traffic.refusals and not traffic.losses, (traffic.refusals, traffic.losses)
        assert same_answers(traffic.answers) > 60

    after = {each["name"]: each for each in appliance.ctl_json("tenant", "list")["tenants"]}
    assert after == before
    # Changes are possible, and the registry has them.
    appliance.add_tenant("later", models(seed=3))
    appliance.ctl("tenant", "remove", "t0")
    assert appliance.stop() == 0, appliance.log()[-3000:]
    appliance.start()
    assert {each["name"] for each in appliance.ctl_json("tenant", "list")["tenants"]} == {"t1", "later"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stalled_worker_loses_nothing(new_appliance, namespaces, models, workers):
    """The old process's worker that receives gets no CPU time while the new process opens the port and begins to serve.
    Only the old one has received the requests before that."""
    appliance = new_appliance().use_workers(workers)
    appliance.sections["batching"] = {"max_wait": "0s"}
    appliance.start()
    add_tenants(appliance, models)
    worker, = threads_of(appliance.process.pid, "rte-worker-1")
    process, finish = start_loadgen(appliance, enter=("ip", "netns", "exec", namespaces.client), requests=LONG)
    time.sleep(1)
    with ThreadPoolExecutor() as pool:
        try:
            with stopped_thread(worker):
                handover = pool.submit(appliance.handover)
                wait_until(lambda: appliance.log().count(" ready: ") == 2 or handover.done(), "the new process serves", 30)
                assert process.poll() is None, "the load ended before the handover"
                assert not handover.done(), "it waits for the worker"
        except PermissionError:
            process.kill()
            pytest.skip("this container does not allow ptrace")
        answer = handover.result()
    assert answer["drained"] and answer["in_flight"] == 0
    nothing_lost(finish(stop=True))


def test_no_request_is_lost_over_memif(new_appliance, models):
    appliance = new_appliance()
    appliance.sections["batching"] = {"max_wait": "0s"}
    appliance.use_port("net_memif0", "role=server,rsize=11,socket-abstract=no,"
                       f"socket={appliance.directory}/memif.sock")
    appliance.start(link="down")
    add_tenants(appliance, models)
    process, finish = start_loadgen(
        appliance, "--local-ip", CLIENT_IPV4, "--eal",
        f"--no-pci --no-huge -m 256 --no-telemetry --file-prefix={appliance.prefix}-peer "
        f"--vdev=net_memif0,role=client,rsize=11,socket-abstract=no,socket={appliance.directory}/memif.sock",
        requests=LONG)
    try:
        wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > 100, "the load runs", 30)
        mac = appliance.ctl_json("health")["appliance"]["ports"][0]["mac"]
        appliance.handover()
        assert process.poll() is None, "the load ended before the handover"
        wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > 100, "the new process answers")
        assert appliance.ctl_json("health")["appliance"]["ports"][0]["mac"] == mac
        nothing_lost(finish(stop=True))
    finally:
        process.kill()
        subprocess.run(("rm", "-rf", f"/var/run/dpdk/{appliance.prefix}-peer"), check=False)
    wait_until(lambda: appliance.ctl("health", check=False).returncode == 1, "the peer has left")
    appliance.handover(link="down")
    assert appliance.stop() == 0, appliance.log()[-3000:]


def script(appliance, name, text):
    path = appliance.directory / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_failed_handover_changes_nothing(served, namespaces, models):
    appliance = served
    added = add_tenants(appliance, models, 1)
    pid = appliance.process.pid
    with connect(namespaces, added[0]) as client:
        client.infer_tokens(IDS)
        assert "cannot start /nonexistent/itifd: No such file" in failing(appliance, "--binary", "/nonexistent/itifd")
        goes_on(appliance, client, pid)

        broken = script(appliance, "broken", "echo the library is missing >&2; exit 1")
        error = failing(appliance, "--binary", broken)
        assert "exit status 1: the library is missing" in error, error
        goes_on(appliance, client, pid)

        sleeper = script(appliance, "sleeper", "exec sleep 100")
        error = failing(appliance, "--binary", sleeper, "--within", "500ms")
        assert "did not report 'loaded' in time" in error, error
        goes_on(appliance, client, pid)

        wrong = appliance.directory / "wrong.conf"
        text = appliance.config_path.read_text(encoding="utf-8")
        wrong.write_text(text + "nonsense = 1;\n", encoding="utf-8")
        assert "nonsense" in failing(appliance, "--config", str(wrong))
        wrong.write_text(text.replace("device = \"net_af_packet0\";", "device = \"net_af_packet0\"; mtu = 1400;"),
                         encoding="utf-8")
        error = failing(appliance, "--config", str(wrong))
        assert "MTU of 1400" in error and "restart itifd" in error, error
        goes_on(appliance, client, pid)
        # A correct one still works.
        appliance.handover()
        client.infer_tokens(IDS)


def test_a_tenant_that_does_not_load_fails_the_handover(served, namespaces, models):
    appliance = served
    added = add_tenants(appliance, models, 1)
    directory = appliance.directory / "model"
    subprocess.run(("cp", "-r", str(models(seed=9)), str(directory)), check=True)
    appliance.add_tenant("moved", directory)
    directory.rename(appliance.directory / "elsewhere")
    pid = appliance.process.pid
    with connect(namespaces, added[0]) as client:
        error = failing(appliance)
        assert "the model of tenant 'moved' cannot be loaded" in error, error
        goes_on(appliance, client, pid)


# DPDK locks many files of its own, which stay quick.
SLOW = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int flock(int fd, int operation) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, getenv("SLOW_UNDER")) == path) usleep(1000000);
  return (int)syscall(SYS_flock, fd, operation);
}
"""


def slow_itifd(appliance):
    """An itifd that takes seconds for the switch: for the registry's lock, and for each socket file."""
    library = appliance.directory / "slow.so"
    subprocess.run(("cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"), input=SLOW, text=True, check=True)
    return script(appliance, "slow", f'SLOW_UNDER={appliance.directory} LD_PRELOAD={library} exec {program("itifd")} "$@"')


def start_handover(appliance, moment):
    """Starts a handover and returns itifctl and the new process at `moment`: seconds, or "switch"."""
    options = ("--binary", slow_itifd(appliance)) if moment == "switch" else ()
    control = subprocess.Popen((*appliance.itifctl(), "--endpoint", appliance.endpoint, "handover", *options),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: children_of(appliance.process.pid), "the new process")
    new = children_of(appliance.process.pid)[0]
    if moment == "switch":  # the old process has released its endpoints
        wait_until(Path(appliance.directory, "control.sock.handed-over").exists, "the switch", seconds=60)
    else:
        time.sleep(moment)
    return control, new


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("moment", [0.0, 0.2, 0.5, 1.0, "switch"])
def test_ending_the_new_process_leaves_the_old_one_serving(served, namespaces, models, moment, how):
    appliance = served
    added = add_tenants(appliance, models, 1)
    pid = appliance.process.pid
    with connect(namespaces, added[0]) as client, Traffic(client) as traffic:
        control, new = start_handover(appliance, moment)
        os.kill(new, how)
        _, error = control.communicate(timeout=60)
        if control.returncode == 0:
            pytest.skip("the new process had taken over before it was killed")
        traffic.wait_for(5)
        ends = [f"was ended by signal {how:d}"]
        if how == signal.SIGTERM:
            ends.append("ended with exit status 0")
        assert any(f"the new process {end}" in error for end in ends), error
        traffic.wait_for(5)
        traffic.stop()
        assert not traffic.losses and not traffic.refusals
        goes_on(appliance, client, pid)


def test_memif_goes_back_to_the_old_process(new_appliance, namespaces, models):
    """The new process fails when it has the port, the registry and the endpoints."""
    appliance = new_appliance()
    appliance.use_port("net_memif0", "role=server,rsize=11,socket-abstract=no,"
                       f"socket={appliance.directory}/memif.sock")
    appliance.sections["telemetry"]["prometheus"] = "127.0.0.1:19464"
    appliance.start(link="down")
    add_tenants(appliance, models, 1)
    pid = appliance.process.pid
    other = appliance.directory / "other.conf"
    # This endpoint is opened after the others, so a busy port fails the handover there.
    with namespaces.inside(namespaces.server):
        busy = socket.create_server(("127.0.0.1", 19465))
    other.write_text(appliance.config_path.read_text(encoding="utf-8").replace(":19464", ":19465"), encoding="utf-8")
    socket_file = Path(appliance.directory, "memif.sock")
    # While this link exists, the file system cannot give a new socket the inode of the first.
    first = Path(appliance.directory, "first.sock")
    first.hardlink_to(socket_file)
    error = failing(appliance, "--config", str(other))
    busy.close()
    assert "telemetry.prometheus" in error and "this one goes on" in error, error
    assert not socket_file.samefile(first), "the port was not passed on"
    _, finish = start_loadgen(
        appliance, "--local-ip", CLIENT_IPV4, "--eal",
        f"--no-pci --no-huge -m 256 --no-telemetry --file-prefix={appliance.prefix}-peer "
        f"--vdev=net_memif0,role=client,rsize=11,socket-abstract=no,socket={appliance.directory}/memif.sock",
        requests=100)
    try:
        nothing_lost(finish())
    finally:
        subprocess.run(("rm", "-rf", f"/var/run/dpdk/{appliance.prefix}-peer"), check=False)
    assert appliance.process.pid == pid and appliance.alive()
    appliance.ctl("tenant", "update", "t0", "--weight", "2")
    assert appliance.stop() == 0


def test_changes_during_a_handover_are_refused(served, models):
    appliance = served
    add_tenants(appliance, models, 1)
    sleeper = script(appliance, "sleeper", "exec sleep 100")
    control = subprocess.Popen((*appliance.itifctl(), "--endpoint", appliance.endpoint, "handover",
                                "--binary", sleeper, "--within", "3s"), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: children_of(appliance.process.pid), "the new process")
    assert appliance.ctl_json("health")["running"] == "handover"
    for command in (("tenant", "update", "t0", "--weight", "2"), ("handover",)):
        result = appliance.ctl(*command, check=False)
        assert result.returncode == 1 and "a handover to another process runs" in result.stderr, result.stderr
    control.communicate(timeout=30)
    assert control.returncode == 1
    appliance.ctl("tenant", "update", "t0", "--weight", "2")
    # SIGTERM ends a handover and the process that it started.
    control = subprocess.Popen((*appliance.itifctl(), "--endpoint", appliance.endpoint, "handover",
                                "--binary", sleeper), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: children_of(appliance.process.pid), "the new process")
    new = children_of(appliance.process.pid)[0]
    assert appliance.stop() == 0
    control.communicate(timeout=30)
    assert not Path(f"/proc/{new}").exists()


def test_a_handover_waits_for_the_end_of_the_one_before(served, namespaces, models):
    appliance = served
    added = add_tenants(appliance, models, 1)
    first = appliance.process
    control, new = start_handover(appliance, "switch")
    time.sleep(0.5)  # the first process has told the new one to serve, which still takes seconds
    first.send_signal(signal.SIGSTOP)
    try:
        with connect(namespaces, added[0]) as client:
            wait_until(lambda: appliance.ctl("health", check=False).returncode == 0, "the new process serves", 60)
            client.infer_tokens(IDS)
            error = failing(appliance)
            assert f"process {first.pid}, which has handed over to this one, still answers" in error, error
            client.infer_tokens(IDS)
            appliance.ctl("tenant", "update", "t0", "--weight", "2")
            first.send_signal(signal.SIGCONT)
            _, error = control.communicate(timeout=60)
            assert control.returncode == 0 and first.wait(20) == 0, error
            appliance.adopt(new)
            appliance.handover()
            client.infer_tokens(IDS)
    finally:
        first.send_signal(signal.SIGCONT)
        if appliance.process is first:
            os.kill(new, signal.SIGKILL)
    assert appliance.stop() == 0


@pytest.mark.parametrize("moment", [0.3, 0.8, "switch"])
def test_killing_the_old_process_loses_no_state(served, namespaces, models, moment):
    appliance = served
    added = add_tenants(appliance, models, 2)
    control, new = start_handover(appliance, moment)
    appliance.kill()
    control.communicate(timeout=60)
    appliance.adopt(new)
    # A fast machine may have switched at that moment.
    wait_until(lambda: not appliance.alive() or appliance.ctl("health", check=False).returncode == 0,
               "the new process ends or goes on", seconds=30)
    if not appliance.alive():
        assert moment != "switch" and appliance.process.wait(1) == 1, "the new process ends, too"
        appliance.start()
    assert [each["name"] for each in appliance.ctl_json("tenant", "list")["tenants"]] == ["t0", "t1"]
    with connect(namespaces, added[0]) as client:
        client.infer_tokens(IDS)
    appliance.ctl("tenant", "update", "t0", "--weight", "2")
    assert appliance.stop() == 0


def test_the_new_process_gives_new_tokens(new_appliance, namespaces):
    """Requests that were captured before a handover do not run after it. Clients get a new token with one refusal."""
    appliance = new_appliance()
    appliance.sections["device"] = {"dtype": "f32"}
    appliance.start()
    golden = Golden("plain-f32")
    with connect(namespaces, appliance.add_tenant("t", golden.directory), rto_s=5) as client:
        golden.check(client, golden.cases[0], F32)
        token = client.token
        assert token != 0
        appliance.handover()
        golden.check(client, golden.cases[0], F32)
        assert client.token != token and dropped(appliance, "token_required") == 1
    assert appliance.stop() == 0
