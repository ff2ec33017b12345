"""An attacker who has captured datagrams of a real client sends them again: from the client's address, from
another one, to a restarted appliance. A request never runs twice, no answer goes elsewhere, and no reply is longer than
its question."""

import time

import pytest
from harness.clients import Recorder, assert_accounted, connect, dropped, same_floats, stranger, wait_dropped

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
        assert dropped(appliance, "replayed") >= len(captured) - hellos

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
