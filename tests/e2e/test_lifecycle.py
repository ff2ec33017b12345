"""Ends of the appliance: SIGTERM drains; after SIGKILL and a restart tenants and acknowledged changes are there."""

import json
import random
import shutil
import subprocess
import threading
import time

import itif_client
import pytest
from harness.appliance import program
from harness.clients import Traffic, assert_accounted, connect, wait_until
from test_tenants import tenants

IDS = [101, 2000, 2001, 102]


def is_refused(datagram):
    if datagram is None or datagram.header.type != itif_client.STATUS:
        return False
    assert itif_client.STATUSES[datagram.header.status] == "draining"
    return True


def test_sigterm_answers_accepted_requests_and_refuses_later_ones(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["batching"]["max_wait"] = "0s"  # accept all, even on a slow machine
    appliance.drain_timeout = "2m"
    appliance.start()
    added = appliance.add_tenant("drained", models(backbone="bert-small"))
    long = [101] + [2000] * 480 + [102]
    with connect(namespaces, added) as client:
        assert client.infer_tokens(IDS, "logits").payload  # also resolves the neighbour
        accepted = []

        def many_are_in_flight():  # whatever the machine's speed
            for _ in range(40):
                accepted.append(client.tokens(long, result_kind="logits", budget_us=0))
                client.send_pieces(accepted[-1])
            total = appliance.ctl_json("stats")["total"]
            return total["in_flight"] >= 100 and total["received"] == 1 + len(accepted)

        wait_until(many_are_in_flight, "requests wait", 60)
        refused = 0
        with connect(namespaces, added) as late:
            appliance.process.terminate()
            while appliance.alive():
                late.send_pieces(late.tokens(IDS, result_kind="logits"))
                refused += is_refused(late.receive(0.01))
            while (datagram := late.receive(0.2)) is not None:
                refused += is_refused(datagram)
        assert appliance.process.wait(20) == 0, appliance.log()[-3000:]
        got = set()
        while (datagram := client.receive(0.2)) is not None:
            if datagram.header.type == itif_client.RESPONSE:
                got.add(datagram.header.request_id)
        expected = {message.header.request_id for message in accepted}
        assert expected <= got, f"{len(expected - got)} of {len(expected)} accepted requests unanswered"
        assert refused >= 1, "no request was refused as draining"


def test_sigterm_does_not_wait_for_a_running_drain_command(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["data_plane"]["reassembly_timeout"] = "60s"
    appliance.drain_timeout = "500ms"
    appliance.start()
    added = appliance.add_tenant("half", models())
    with connect(namespaces, added, fragment_bytes=64) as client:
        client.send_pieces(client.tokens(IDS * 40), [0])  # in flight until it times out
        wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 1, "the request")
        with subprocess.Popen((program("itifctl"), "--endpoint", appliance.endpoint, "drain", "--within", "10m"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as drain:
            wait_until(lambda: "draining" in appliance.ctl("health", check=False).stdout, "the drain")
            assert appliance.stop() == 0, "stop() fails long before the drain would end"
            drain.wait(60)


def test_drain_by_command_and_back(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added) as client:
        appliance.ctl("drain")
        health = appliance.ctl("--json", "health", check=False)
        assert health.returncode == 1 and json.loads(health.stdout)["status"] == "draining"
        with pytest.raises(itif_client.Refused, match="draining"):
            client.infer_tokens(IDS, "logits")
        appliance.ctl("undrain")
        assert client.infer_tokens(IDS, "logits").payload
        assert appliance.ctl("health").returncode == 0


def test_every_tenant_is_there_after_kill_and_restart(appliance, namespaces, models):
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(3)]
    appliance.ctl("tenant", "pause", "t2")
    with connect(namespaces, added[0]) as client:
        before = client.infer_tokens(IDS, "logits").floats()
    appliance.kill()
    appliance.start()
    wait_admitted(appliance, 3)
    assert [(each["name"], each["state"]) for each in tenants(appliance)] == [
        ("t0", "serving"), ("t1", "serving"), ("t2", "paused")]
    with connect(namespaces, added[0]) as client:  # the same key
        assert client.infer_tokens(IDS, "logits").floats() == pytest.approx(before, abs=2e-2)
    assert_accounted(appliance)


def wait_admitted(appliance, count, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        listed = tenants(appliance)
        if len(listed) >= count and all(each["state"] in ("serving", "paused") for each in listed):
            return
        assert time.monotonic() < deadline, listed
        time.sleep(0.05)


def test_clients_survive_a_restart(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added, max_silent_tries=60) as client, Traffic(client) as traffic:
        client.max_silent_tries = 60
        traffic.wait_for(3)
        appliance.kill()
        appliance.start()
        traffic.wait_for(3)
    assert not traffic.losses
    assert set(traffic.refusals) <= {"not_admitted"}, "refusals must be not_admitted, while the model loads"


def test_a_tenant_whose_model_does_not_load_is_still_known(appliance, namespaces, models, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(models(), directory)
    added = appliance.add_tenant("lost", directory)
    appliance.kill()
    directory.rename(tmp_path / "elsewhere")
    appliance.launch()
    wait_until(lambda: "lost" in appliance.ctl("tenant", "list", check=False).stdout, "an answer")
    wait_until(lambda: tenants(appliance)[0]["state"] == "failed", "the failure")
    with connect(namespaces, added, rto_s=5) as client:
        with pytest.raises(itif_client.Refused, match="not_admitted"):
            client.infer_tokens(IDS, "logits")
        forger = connect(namespaces, {**added, "key": "00" * 16}, max_silent_tries=1, rto_s=0.1)
        with forger, pytest.raises(itif_client.Lost):  # requests with a wrong key get no answer
            forger.infer_tokens(IDS, "logits", timeout_s=0.3)
        rotated = appliance.ctl_json("tenant", "rotate-key", "lost")
        with connect(namespaces, rotated, rto_s=5) as newer, pytest.raises(itif_client.Refused, match="not_admitted"):
            newer.infer_tokens(IDS, "logits")
        stats = appliance.ctl_json("stats")["tenants"][0]
        assert stats["state"] == "failed" and stats["refused"]["not_admitted"] == 2, stats
        (tmp_path / "elsewhere").rename(directory)
        appliance.ctl("tenant", "resume", "lost")
        assert client.infer_tokens(IDS, "logits").payload
        appliance.ctl("tenant", "remove", "lost")
        with pytest.raises(itif_client.Lost):  # an unknown tenant gets no answer
            client.infer_tokens(IDS, "logits")


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_moment_loses_no_acknowledged_change(new_appliance, models, seed):
    """A thread adds, changes and removes tenants and records acknowledged changes; the process is killed meanwhile."""
    appliance = new_appliance().start()
    rng = random.Random(seed)
    model = models()
    acknowledged, pending = {}, [None]
    stop = threading.Event()

    def change():
        for turn in range(1000):
            if stop.is_set():
                return
            name = f"t{turn % 7}"
            weight = turn + 1
            if name not in acknowledged:
                command = ("tenant", "add", name, "--model", str(model), "--weight", str(weight))
            elif rng.random() < 0.5:
                command = ("tenant", "update", name, "--weight", str(weight))
            else:
                command, weight = ("tenant", "remove", name), None
            pending[0] = name
            result = appliance.ctl(*command, check=False, timeout=20)
            if result.returncode != 0:
                return  # killed meanwhile: this change may or may not have happened
            if weight is None:
                del acknowledged[name]
            else:
                acknowledged[name] = weight
            pending[0] = None

    thread = threading.Thread(target=change)
    thread.start()
    time.sleep(1.0 + rng.random() * 1.5)
    appliance.kill()
    stop.set()
    thread.join(30)
    assert len(acknowledged) or pending[0]
    appliance.start()
    wait_admitted(appliance, 0)
    found = {each["name"]: each["weight"] for each in tenants(appliance)}
    for name in set(acknowledged) | set(found):
        if name != pending[0]:
            assert found.get(name) == acknowledged.get(name), (name, found, acknowledged)


def test_two_interrupts_and_odd_signals(appliance):
    subprocess.run(("kill", "-HUP", str(appliance.process.pid)), check=True)
    time.sleep(0.3)
    if appliance.alive():
        assert appliance.stop() == 0
