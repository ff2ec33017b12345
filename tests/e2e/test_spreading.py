"""Two workers behind one queue: software spreads many clients over them, and each is answered once."""

import threading
import time

import pytest
from harness.clients import Golden, Traffic, assert_accounted, connect, stranger, wait_until
from harness.handover import F32, IDS, LONG, add_tenants, nothing_lost, same_answers, start_loadgen
from harness.namespaces import SERVER_IPV4, SERVER_IPV6, run

CLIENTS, REQUESTS = 24, 8


@pytest.fixture
def spread(new_appliance):
    """Two workers, not started."""
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32"}
    made.sections["batching"] = {"max_wait": "0s"}  # refuse nothing, even on a slow machine
    return made.use_workers(2)


def workers_of(appliance):
    return appliance.ctl_json("drops")["workers"]


def ask_all(clients):
    """Each client asks in a thread of its own."""
    failures = []

    def ask(golden, client):
        try:
            for turn in range(REQUESTS):
                golden.check(client, golden.cases[turn % len(golden.cases)], F32)
        except Exception as error:  # pylint: disable=broad-except
            failures.append(repr(error))

    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads), failures[:3]


def test_many_clients_are_answered_once(spread, namespaces):
    appliance = spread.start()
    port = appliance.ctl_json("health")["appliance"]["ports"][0]
    assert (port["queues"], port["workers"], port["spreading"]) == (1, 2, ["software"])
    golden = Golden("plain-f32")
    added = appliance.add_tenant("plain", golden.directory)
    clients = [(golden, connect(namespaces, added, address=SERVER_IPV4 if i % 2 else SERVER_IPV6, rto_s=5,
                                fragment_bytes=64 if i % 3 else 1368)) for i in range(CLIENTS)]
    ask_all(clients)
    for address in (SERVER_IPV4, SERVER_IPV6):
        namespaces.in_client("ping", "-c", "3", "-i", "0.05", "-W", "2", address)
        for _ in range(8):
            with stranger(namespaces, address=address) as client:
                client.ping(b"y" * 1380)
    # One request has one flow: the answer of another worker would be a second one.
    wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] == CLIENTS * REQUESTS,
               lambda: appliance.ctl_json("stats")["total"])
    drops = assert_accounted(appliance)
    owner, member = drops["workers"]
    assert owner["passed"] == member["received"] > CLIENTS and owner["received"] > CLIENTS, drops
    assert member["fed_by"] == owner["worker"] and member["passed"] == 0 and "fed_by" not in owner
    assert "worker_queue_full" not in drops["total"]["dropped"]
    assert "by worker 0" in appliance.ctl("drops").stdout
    stats = appliance.ctl_json("stats")["datagrams"]
    assert stats["send_dropped"] == 0
    wait_until(lambda: appliance.ctl_json("stats")["datagrams"]["sent"]
               == appliance.ctl_json("drops")["ports"][0]["tx_packets"], "all are sent")
    for _, client in clients:
        client.close()
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_killed_and_started_again(spread, namespaces, models):
    appliance = spread.start()
    added = add_tenants(appliance, models)
    enter = ("ip", "netns", "exec", namespaces.client)
    process, _ = start_loadgen(appliance, "--flows", "16", enter=enter, requests=1500)
    wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] > 100, "the load runs")
    appliance.kill()
    process.kill()
    process.wait()
    appliance.start()
    wait_until(lambda: appliance.ctl_json("health")["tenants"]["serving"] == 2, "the tenants are restored")
    _, finish = start_loadgen(appliance, "--flows", "16", enter=enter, requests=600)
    nothing_lost(finish())
    assert all(worker["received"] > 0 for worker in workers_of(appliance))
    with connect(namespaces, added[0]) as client:
        client.infer_tokens(IDS)
    assert_accounted(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_handover_to_the_same_and_to_more_workers(spread, namespaces, models):
    appliance = spread.start()
    added = add_tenants(appliance, models)
    enter = ("ip", "netns", "exec", namespaces.client)
    with connect(namespaces, added[0]) as client, Traffic(client) as traffic:
        traffic.wait_for(20)
        process, finish = start_loadgen(appliance, "--flows", "64", enter=enter, requests=LONG)
        for workers in (2, 3):
            appliance.use_workers(workers).write_config()
            answer = appliance.handover()
            assert answer["drained"] and answer["in_flight"] == 0
            traffic.wait_for(20)
            wait_until(lambda: all(worker["received"] > 0 for worker in workers_of(appliance)), "all workers work")
            assert len(workers_of(appliance)) == workers
        assert process.poll() is None, "the load ended before the handover"
        nothing_lost(finish(stop=True))
        traffic.stop()
        assert not traffic.refusals and not traffic.losses, (traffic.refusals, traffic.losses)
        assert same_answers(traffic.answers) > 60
    assert_accounted(appliance, ports=False)
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_drain_and_a_link_that_goes_down(spread, namespaces, models):
    appliance = spread.start()
    added = add_tenants(appliance, models, 1)
    with connect(namespaces, added[0]) as client:
        client.infer_tokens(IDS)
    for namespace, link in ((namespaces.client, namespaces.client_link), (namespaces.server, namespaces.server_link)):
        run("ip", "-n", namespace, "link", "set", link, "down")
        time.sleep(0.3)
        run("ip", "-n", namespace, "link", "set", link, "up")
    with connect(namespaces, added[0]) as client, Traffic(client) as traffic:
        traffic.wait_for(20)
        appliance.ctl("drain")
        wait_until(lambda: "draining" in traffic.refusals, "refusals")
        appliance.ctl("undrain")
        traffic.wait_for(20)
    assert_accounted(appliance)
    assert appliance.stop() == 0, appliance.log()[-3000:]
