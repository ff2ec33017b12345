"""The Python client against a scripted server on the loopback: each rule of section 9 of docs/protocol.md.
Needs no root and no appliance."""

import struct
import threading

import pytest
from harness.clients import wait_until
from harness.scripted_server import (KEY, ONE_SILENCE, PATIENT, QUICK, TOKEN, Server, answer, response, types,
                                     wait_seen)

import itif_client as wire


@pytest.fixture
def serve():
    made = []

    def start(script, **options) -> tuple[Server, wire.Client]:
        server = Server(script)
        options = {"tenant_id": 7, "key": KEY, **PATIENT, **options}
        client = wire.Client("127.0.0.1", server.port, **options)
        made.append((server, client))
        return server, client

    yield start
    for server, client in made:
        client.close()
        server.stop()
        assert server.failure is None, server.failure


def test_one_datagram_each_way(serve):
    server, client = serve(lambda n, d: response(d, [1.0, 2.0]))
    got = client.infer_tokens([101, 2003, 102], result_kind="embedding", budget_us=25_000)
    assert got.value() == [1.0, 2.0]
    assert (got.result_kind, got.server_us, got.tries) == ("embedding", 1234, 1)
    (request,) = server.seen
    assert request.payload == struct.pack("<3H", 101, 2003, 102)
    assert (request.header.budget_us, request.header.result_kind) == (25_000, 3)


def test_silence_repeats_the_first_piece(serve):
    server, client = serve(lambda n, d: response(d, [1.0]) if n == 4 else [], fragment_bytes=64, **ONE_SILENCE)
    got = client.infer_text("x" * 100)
    assert got.tries == 3  # pieces 1 and 2 were the first try
    offsets = [(d.header.offset, bool(d.header.flags & wire.RETRY)) for d in server.seen]
    assert offsets == [(0, False), (64, False), (0, True), (0, True)]


def test_a_request_without_any_answer_is_lost(serve):
    server, client = serve(lambda n, d: [], **QUICK)
    with pytest.raises(wire.Lost):
        client.infer_text("anyone?")
    wait_seen(server, 1 + client.max_silent_tries)


def test_the_servers_resend_is_answered(serve):
    def script(n, d):
        if n == 3:  # the middle pieces are missing
            return [answer(d, wire.RESEND, wire.build_ranges([(64, 128)]), total_bytes=300, fragment_bytes=64)]
        return response(d, [3.0]) if n == 5 else []

    server, client = serve(script, fragment_bytes=64)
    message = client.text("y" * 300)
    client.send_pieces(message, [0, 4, 3])
    got = client.wait(message)
    assert got.resends_served == 1
    assert [d.header.offset for d in server.seen] == [0, 256, 192, 64, 128]


def test_missing_pieces_of_the_response_are_asked_for(serve):
    values = [float(i) for i in range(80)]

    def script(n, d):
        pieces = response(d, values)
        if n == 1:
            return [pieces[4], pieces[1], pieces[1]]
        if d.header.type == wire.RESEND:
            wanted = wire.parse_ranges(d.payload, d.header.total_bytes)
            return [pieces[at // 64] for at, _ in wanted]
        return []

    server, client = serve(script, **ONE_SILENCE)
    got = client.infer_text("long answer", result_kind="embedding")
    assert got.floats() == values
    assert (got.pieces, got.resends_asked) == (5, 1)
    resend = server.seen[1].header
    assert resend.flags == wire.OF_RESPONSE and (resend.total_bytes, resend.fragment_bytes) == (320, 64)


def test_a_whole_response_of_several_pieces_is_acknowledged(serve):
    done = threading.Event()

    def script(n, d):
        if d.header.type == wire.ACK:
            done.set()
        return response(d, [0.0] * 40) if d.header.type == wire.REQUEST else []

    server, client = serve(script)
    client.infer_text("two pieces")
    assert done.wait(10)
    assert types(server) == ["request", "ack"]


def test_a_response_that_the_server_has_forgotten_is_computed_again(serve):
    """Two resends at most without an answer, then the request itself."""

    def script(n, d):
        pieces = response(d, [float(n)] * 80, token=n)
        if d.header.type == wire.REQUEST:
            return pieces[:1] if n == 1 else pieces
        return []

    server, client = serve(script, **ONE_SILENCE)
    assert client.infer_text("twice").floats() == [3.0] * 80
    assert types(server)[:3] == ["request", "resend", "request"]


def test_busy_keeps_a_request_alive(serve):
    def script(n, d):
        return response(d, [1.0]) if n == 9 else [answer(d, wire.BUSY, aux=3)]

    server, client = serve(script, **QUICK)
    assert client.infer_text("patience").busy == 8


def test_a_replayed_busy_does_not_keep_a_request_waiting(serve):
    """Somebody captures the server's `busy` and sends it again and again."""
    replays, done = [], threading.Event()

    def send_again(captured, peer):
        for _ in range(500):
            server.socket.sendto(captured, peer)
            if done.wait(0.02):
                return

    def script(n, d):
        if n == 1:
            captured = answer(d, wire.BUSY)
            peer = client.socket.getsockname()
            replay = threading.Thread(target=send_again, args=(captured, peer))
            replay.start()
            replays.append(replay)
        return response(d, [8.0]) if n == 2 else []

    server, client = serve(script, **ONE_SILENCE)
    got = client.infer_text("still there?")
    done.set()
    replays[0].join()
    assert (got.value(), got.busy, got.tries) == ([8.0], 1, 2)
    assert got.latency_s < 5, "it waited for the end of the replays, 10 s"


def test_a_replayed_resend_is_served_once(serve):
    def script(n, d):
        if n == 2:
            captured = answer(d, wire.RESEND, wire.build_ranges([(64, 64)]), total_bytes=128, fragment_bytes=64)
            return [captured] * 20
        return response(d, [9.0]) if n == 3 else []

    server, client = serve(script, fragment_bytes=64)
    got = client.infer_text("x" * 128)
    assert (got.value(), got.resends_served) == ([9.0], 1)
    assert [d.header.offset for d in server.seen] == [0, 64, 64]


def test_pieces_of_an_earlier_run_do_not_displace_those_of_the_last(serve):
    def script(n, d):
        if n == 1:
            first, second = (response(d, [float(run)] * 64, token=run) for run in (1, 2))
            return [first[0], second[0], first[0], second[1], first[1], second[2], first[2], second[3]]
        return []

    server, client = serve(script)
    assert client.infer_text("twice").value() == [2.0] * 64
    wait_until(lambda: len(server.seen) == 2, "the ack has arrived")
    assert types(server) == ["request", "ack"]


def test_a_server_that_counts_from_a_lower_number_is_heard():
    newest = wire.Newest()
    assert newest.advance(1 << 63) and not newest.advance(1 << 63)
    assert newest.advance(1 << 50) and not newest.advance(1 << 50), "another process"
    assert not newest.advance(1 << 63) and newest.advance((1 << 63) + 1), "the first one still answers"
    assert newest.advance((1 << 64) - 1) and newest.advance(0), "the count goes on after its largest number"


def test_a_status_refuses(serve):
    server, client = serve(lambda n, d: [answer(d, wire.STATUS, b"queue is full", status=7, aux=4000)])
    with pytest.raises(wire.Refused) as refused:
        client.infer_text("now?")
    assert refused.value.status == "overloaded"
    assert (refused.value.retry_after_us, refused.value.detail) == (4000, "queue is full")


def test_a_client_says_hello_once_before_its_first_request(serve):
    server, client = serve(lambda n, d: response(d, [1.0]))
    client.infer_text("who am I")
    client.infer_text("again")
    assert server.hellos == 1
    assert [d.header.token for d in server.seen] == [TOKEN, TOKEN]


def token_required(datagram, token):
    return answer(datagram, wire.STATUS, status=wire.STATUSES.index("token_required"), token=token)


def test_a_new_token_is_asked_for_after_a_refusal(serve):
    """The server has restarted. The refusal of the first try comes twice, and counts once."""
    new = 0x1111_2222_3333_4444

    def script(n, d):
        if d.header.token == new:
            return response(d, [1.0])
        server.token = new
        return [token_required(d, new)] * 2

    server, client = serve(script)
    assert client.infer_text("who am I").value() == [1.0]
    assert types(server) == ["request", "request"] and server.hellos == 2
    client.infer_text("again")  # the token is kept
    assert types(server)[2:] == ["request"]


def test_a_refusal_for_another_address_changes_nothing(serve):
    """An attacker has sent the request, too, and passes on the refusal for its own address."""
    server, client = serve(lambda n, d: [token_required(d, 0x666), *response(d, [1.0])] if n > 1 else
                           [token_required(d, 0x666)], **ONE_SILENCE)
    assert client.infer_text("who am I").value() == [1.0]
    assert types(server) == ["request", "request"], "the second is the repeat after silence"
    # One hello before the request, and one after each refusal. The server may read the last one
    # after the client has its response.
    wait_until(lambda: server.hellos >= 3, lambda: f"{server.hellos} hellos")
    assert server.hellos == 3 and client.token == TOKEN


def test_a_forged_answer_to_hello_does_not_keep_the_client_out(serve):
    """Somebody answers each hello before the server does. The refusals of the server carry the right token."""
    right = 0x1111_2222_3333_4444

    def script(n, d):
        server.token += 1
        return response(d, [1.0]) if d.header.token == right else [token_required(d, right)]

    server, client = serve(script)
    assert client.infer_text("who am I").value() == [1.0]
    assert types(server) == ["request"] * 3 and client.token == right


def test_a_server_without_an_answer_to_hello_is_named(serve):
    server, client = serve(lambda n, d: [])
    server.answers_hello = False
    with pytest.raises(wire.Lost, match="does the server run"):
        client.hello(timeout_s=0.3)


def lost_message(client, **options) -> str:
    with pytest.raises(wire.Lost) as lost:
        client.infer_text("anyone?", **options)
    return str(lost.value)


def test_a_lost_request_says_why(serve):
    """Each cause has words of its own: a server that says `busy` knows the client."""
    _, client = serve(lambda n, d: [answer(d, wire.BUSY, aux=3)], **QUICK)
    why = lost_message(client, timeout_s=1.0)
    assert "that it has no result yet (busy)" in why and "strangers" not in why, why
    _, client = serve(lambda n, d: response(d, [9.0], key=bytes(16)), max_silent_tries=2, **QUICK)
    assert "a wrong tag: the key differs" in lost_message(client)
    _, client = serve(lambda n, d: response(d, [9.0] * 40)[:1], max_silent_tries=2, **QUICK)
    assert "1 pieces of a response" in (why := lost_message(client)) and "other pieces were lost" in why
    _, client = serve(lambda n, d: [], max_silent_tries=2, **QUICK)
    assert "does not answer strangers" in lost_message(client)


def test_servers_are_parsed_as_the_other_tools_do():
    for text, host, port in (("198.18.0.1", "198.18.0.1", 9009), ("host:7", "host", 7), ("fd00::1", "fd00::1", 9009),
                             ("[fd00::1]:7", "fd00::1", 7), ("[fd00::1]", "fd00::1", 9009),
                             ("fe80::1%eth0", "fe80::1%eth0", 9009), ("[fe80::1%eth0]:7", "fe80::1%eth0", 7)):  # fmt: skip
        assert wire.parse_server(text) == (host, port)
    for text in ("", ":7", "host:", "host:0", "host:99999", "host:x", "host:-1", "[fd00::1", "[fd00::1]7", "[]:7"):
        with pytest.raises(ValueError, match="is not HOST, HOST:PORT or"):
            wire.parse_server(text)
    for port in (0, 99999):
        with pytest.raises(ValueError, match="the port must be between 1 and 65535"):
            wire.Client("127.0.0.1", port)
    with pytest.raises(wire.Lost, match="'no such host' is not an address or a known host name"):
        wire.Client("no such host")


def test_the_program_says_what_is_wrong_in_one_line(capsys):
    for server, words in (("127.0.0.1:99999", "is not HOST, HOST:PORT or [IPV6]:PORT"),
                          ("no such host", "is not an address or a known host name"),
                          ("127.0.0.1:1", "nobody listens at 127.0.0.1 port 1")):  # fmt: skip
        assert wire.main([server, "1", "00" * 16, "a text"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("itif_client: ") and words in error and error.count("\n") == 1, error


def test_wrong_and_missing_tags_are_ignored(serve):
    forged = {
        1: lambda d: response(d, [9.0], key=bytes(16)),
        2: lambda d: response(d, [9.0], auth=0),
        3: lambda d: [answer(d, wire.STATUS, b"", auth=0, status=7)],
        4: lambda d: response(d, [1.0]),
    }
    server, client = serve(lambda n, d: forged[n](d), **ONE_SILENCE)
    assert client.infer_text("truth").value() == [1.0]
    assert len(server.seen) == 4


def test_a_refusal_without_a_tag_is_a_hint(serve):
    """Anybody can forge it: the client goes on, and reports it if no answer comes."""
    forged = lambda d: [answer(d, wire.STATUS, b"no such tenant", auth=0, status=1)]
    server, client = serve(lambda n, d: forged(d) if n < 3 else response(d, [1.0]), **QUICK)
    assert client.infer_text("hello?").value() == [1.0]
    server, client = serve(lambda n, d: forged(d) if n == 1 else [], **QUICK)
    with pytest.raises(wire.Refused) as refused:
        client.infer_text("hello?")
    assert refused.value.status == "unknown_tenant" and not refused.value.tagged
    wait_seen(server, 1 + client.max_silent_tries)


@pytest.mark.parametrize("auth", wire.AUTHS)
def test_authentication_levels(serve, auth):
    server, client = serve(lambda n, d: response(d, [1.0]), auth=auth)
    assert client.infer_text("level").value() == [1.0]
    assert wire.AUTHS[server.seen[0].header.auth] == auth
    assert server.seen[0].payload == b"level"


def test_a_rerun_with_another_geometry_starts_over(serve):
    def script(n, d):
        if n == 1:
            return response(d, [9.0] * 40)[:1]
        return response(d, [1.0] * 20, fragment=128)

    server, client = serve(script, **QUICK)
    assert client.infer_text("twice").floats() == [1.0] * 20


def test_ping_and_hello(serve):
    def script(n, d):
        if d.header.type == wire.PING:
            return [answer(d, wire.PONG, d.payload)] if n > 1 else []  # the first one is lost
        return [answer(d, wire.TOKEN, token=5, budget_us=30_000_000)] if n > 3 else []

    server, client = serve(script, **QUICK)
    server.answers_hello = False
    assert 0 < client.ping(b"there?") < 2
    assert client.hello() == 5 and client.token == 5


def test_wrong_pieces_can_be_sent(serve):
    server, client = serve(lambda n, d: [])
    message = client.tokens(range(100), fragment_bytes=64)
    client.send_pieces(message, [3, 0, 0])
    client.send_raw(message.piece(64, session=1))  # tagged after the change
    client.send_pieces(message, [1], flags=wire.NO_CACHE)
    with pytest.raises(wire.Lost):
        client.wait(message, timeout_s=0.2, retransmit=False)
    wait_seen(server, 5)
    assert [d.header.offset for d in server.seen] == [192, 0, 0, 64, 64]
    assert [d.header.session == client.session for d in server.seen] == [True] * 3 + [False, True]
    assert server.seen[4].header.flags == wire.NO_CACHE
