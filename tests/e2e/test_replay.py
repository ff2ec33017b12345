"""An attacker who has captured datagrams of a real client sends them again: from the client's address, from
another one, to a restarted appliance. A request never runs twice, no answer goes elsewhere, and no reply is longer than
its question."""

import time

import pytest
from harness.clients import (Recorder, assert_accounted, connect, dropped, same_floats, stranger, wait_dropped,
                             wait_until)
from harness.frames import UDP, ipv4, udp, wire_to
from itif_client import REQUEST

AUTHS = ["none", "header", "full", "sealed"]
IDS = [101, *range(2000, 2100), 102]


def drain(client, seconds=0.3):
    """All datagrams that arrive."""
    received = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if (data := client.receive_raw(left)) is not None:
            received.append(data)
    return received


def answered(appliance):
    return appliance.ctl_json("stats")["total"]["answered"]


@pytest.mark.parametrize("auth", AUTHS)
def test_captured_datagrams_draw_nothing(new_appliance, namespaces, models, auth):
    appliance = new_appliance()
    appliance.start()
    added = appliance.add_tenant("victim", models(), "--auth", auth)
    with connect(namespaces, added, make=Recorder, fragment_bytes=64) as client:
        client.infer_tokens(IDS, "hidden")
        message = client.tokens(IDS, result_kind="hidden")
        answer = client.infer(message)
        assert answer.pieces > 10
        client.send_resend(message, [(0, len(answer.payload))], len(answer.payload), 1164)
        captured = list(client.sent)
        drain(client)
        before = answered(appliance)

        # From the client's own address, as with a forged source: the client would get the answers.
        hellos = 1
        for data in captured:
            client.socket.send(data)
        got = drain(client)
        assert sum(map(len, got)) <= hellos * len(captured[0]), "only the hello is answered again"
        wait_until(lambda: dropped(appliance, "replayed") >= len(captured) - hellos, "they are dropped")

        # From elsewhere: a reply at most to pieces at offset 0, and none longer than its question.
        with stranger(namespaces) as thief:
            for data in captured[hellos:]:
                thief.socket.send(data)
                assert sum(map(len, drain(thief, 0.02))) <= len(data)
        time.sleep(0.2)
        assert answered(appliance) == before, "nothing ran"

        # To another process with the same keys.
        appliance.kill()
        appliance.start()
        for data in captured[hellos:]:
            client.socket.send(data)
        wait_dropped(appliance, "token_required", len(captured) - hellos)
        assert sum(map(len, drain(client))) <= sum(map(len, captured))
        assert answered(appliance) == 0
        again = client.infer_tokens(IDS, "hidden")
        assert same_floats(again.payload, answer.payload), "the client itself goes on"
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_replays_use_no_quota_of_the_victim(new_appliance, namespaces, models):
    """60 replays a second once left a victim with a quota of 50 a fifth of its answers."""
    appliance = new_appliance()
    appliance.start()
    added = appliance.add_tenant("victim", models(), "--quota-rps", "50")
    with connect(namespaces, added, make=Recorder) as client, stranger(namespaces) as thief:
        client.infer_tokens(IDS[:8], "logits")
        captured = client.sent[-1]
        for _ in range(60):
            for _ in range(5):
                thief.socket.send(captured)
                client.socket.send(captured)
            assert client.infer_tokens(IDS[:8], "logits").payload
            time.sleep(0.02)
    assert dropped(appliance, "over_quota") == 0
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_an_answer_goes_to_the_proven_address_only(new_appliance, namespaces, models):
    """A copied last piece from elsewhere once took the whole response."""
    appliance = new_appliance()
    appliance.sections["data_plane"]["reassembly_timeout"] = "10s"
    appliance.start()
    added = appliance.add_tenant("victim", models())
    with connect(namespaces, added, make=Recorder, fragment_bytes=64) as client, stranger(namespaces) as thief:
        client.hello()
        message = client.tokens(IDS, result_kind="hidden")
        indices = list(range(len(message.offsets())))
        client.send_pieces(message, indices[:-1])
        # The attacker is faster with the last piece than the client.
        before = len(client.sent)
        real_send, client.socket = client.socket, thief.socket
        client.send_pieces(message, indices[-1:])
        client.socket = real_send
        stolen = client.sent[before]
        assert drain(thief, 0.1) == [], "a further piece without proof of the address is dropped in silence"
        client.send_raw(stolen)
        assert client.wait(message).payload
        assert drain(thief, 0.1) == []
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_a_captured_request_runs_at_one_queue_only(new_appliance, namespaces, models):
    """The kernel spreads datagrams by all addresses, so that a copy to another address of the appliance may reach
    another worker, which once ran it again."""
    appliance = new_appliance()
    appliance.use_port("net_af_packet0", f"iface={namespaces.server_link},blocksz=65536,framesz=2048,framecnt=4096,"
                       "qpairs=2").use_workers(2)
    appliance.port["num_queues"] = 2
    others = [f"198.18.0.{last}" for last in range(11, 27)]
    appliance.port["ipv4"] = ["198.18.0.1/24", *(f"{address}/24" for address in others)]
    appliance.start()
    added = appliance.add_tenant("victim", models())
    with connect(namespaces, added, make=Recorder) as client, wire_to(appliance) as attacker:
        client.infer_tokens(IDS[:8], "logits")
        captured = udp(client.sent[-1], client.socket.getsockname()[1], value=0)
        before = answered(appliance)
        for address in others:
            attacker.send(ipv4(captured, UDP, target=address))
        wait_until(lambda: dropped(appliance, "token_required") + dropped(appliance, "replayed") == len(others),
                   "the copies' arrival")
        assert dropped(appliance, "token_required") > 0, "none reached the other queue"
        assert dropped(appliance, "replayed") > 0, "none reached the same queue"
        assert answered(appliance) == before
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_a_token_for_the_attacker_is_not_taken(new_appliance, namespaces, models):
    """The server signs `token_required` for everybody who sends a captured request. The client sent the whole request
    again for each such status."""
    appliance = new_appliance()
    appliance.sections["data_plane"]["reassembly_timeout"] = "10s"
    appliance.start()
    added = appliance.add_tenant("victim", models())
    with connect(namespaces, added, make=Recorder, fragment_bytes=64) as client, stranger(namespaces) as thief:
        client.hello()
        message = client.tokens(3 * IDS, result_kind="logits")
        pieces = len(message.offsets())
        client.send_pieces(message, list(range(pieces - 1)))
        token, before = client.token, len(client.sent)
        thief.socket.send(client.sent[1])
        status = drain(thief, 0.2)
        assert len(status) == 1
        real, waiting = client.receive_raw, list(status)
        client.receive_raw = lambda timeout_s: waiting.pop() if waiting else real(timeout_s)
        assert client.wait(message).payload
        assert not waiting
        assert client.token == token
        requests = [data for data in client.sent[before:] if data[3] == REQUEST]
        assert len(requests) < pieces, "repeats, and the last piece"
    assert_accounted(appliance)
    assert appliance.stop() == 0
