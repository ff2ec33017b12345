"""Bad input causes no crash, leak or stall, and each datagram is counted under a drop reason."""

import os
import random
import struct
import time

import itif_client
import pytest
from harness.clients import assert_accounted, connect, dropped, stranger, wait_dropped, wait_until
from harness.frames import ICMP, TCP, UDP, icmp_echo, ipv4, udp, wire_to
from itif_client import Header, build

IDS = [101, 2000, 2001, 102]


@pytest.fixture
def tenant(appliance, models):
    return appliance.add_tenant("victim", models())


def changed(client, **changes):
    """A valid request, some header fields of which are changed before it is tagged."""
    if not client.token:
        client.hello()
    message = client.tokens(IDS, result_kind="logits")
    fields = {"sequence": client.take_sequence(), "token": client.token, **changes}
    return build(message.header.replaced(**fields), message.payload, message.key)


def silent_end(client, message, timeout_s):
    """The status that ends a request whose client stays silent, even to a resend."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        datagram = client.receive_for(message.header.request_id, timeout_s)
        if datagram is not None and datagram.header.type == itif_client.STATUS:
            return itif_client.STATUSES[datagram.header.status]
    return None


def send_and_expect(appliance, client, reason, datagrams):
    before = dropped(appliance, reason)
    for datagram in datagrams:
        client.send_raw(datagram)
    wait_dropped(appliance, reason, before + len(datagrams))


def test_each_kind_of_bad_datagram_has_a_reason(appliance, namespaces, tenant):
    with connect(namespaces, tenant) as client:
        good = changed(client)
        for reason, datagrams in {
            "wire_too_short": [b"", b"I", good[:65]],
            "wire_bad_magic": [b"XX" + good[2:], os.urandom(8) + bytes(70)],
            "wire_bad_version": [good[:2] + b"\x01" + good[3:], good[:2] + b"\x03" + good[3:]],
            "wire_bad_type": [changed(client, type=0), changed(client, type=11), changed(client, type=255)],
            "wire_unexpected_type": [build(Header(type=itif_client.PONG))],
            "wire_bad_length": [good[:-1], good + b"\0", changed(client, payload_bytes=9)],
            "wire_bad_kind": [changed(client, payload_kind=7), changed(client, result_kind=200)],
            "wire_bad_geometry": [changed(client, fragment_bytes=62), changed(client, fragment_bytes=60),
                                  changed(client, total_bytes=0xFFFFFFFF),
                                  changed(client, total_bytes=17 << 20),
                                  changed(client, offset=4), changed(client, offset=0xFFFFFFFC)],
            "wire_bad_field": [changed(client, status=1), changed(client, aux=1), changed(client, flags=0x8000)],
            "unknown_tenant": [changed(client, tenant_id=999_999)],
            "bad_tag": [good[:at] + bytes([good[at] ^ 1]) + good[at + 1:] for at in (58, 66, 81, 82)],
            "bad_epoch": [changed(client, key_epoch=77)],
            "token_required": [changed(client, token=1)],
        }.items():
            send_and_expect(appliance, client, reason, datagrams)
        client.send_raw(good)
        send_and_expect(appliance, client, "replayed", [good, good])
        with connect(namespaces, tenant, auth="none") as weak:
            send_and_expect(appliance, weak, "bad_auth", [changed(weak)])
        assert client.infer_tokens(IDS, "logits").payload
    assert_accounted(appliance)


def test_bad_requests_get_a_status_and_strangers_no_answer(appliance, namespaces, tenant, models):
    with connect(namespaces, tenant) as client:
        client.max_silent_tries = 2
        client.tenant_id += 1000
        with pytest.raises(itif_client.Lost):  # alike, so that nobody learns which tenants exist
            client.infer_tokens(IDS)
        client.tenant_id -= 1000
        client.key = bytes(16)
        with pytest.raises(itif_client.Lost):
            client.infer_tokens(IDS)
    with connect(namespaces, tenant) as client:
        for status, attempt in {
            "malformed": lambda: client.infer(client.message("tokens_u16", b"\x01\x02\x03")),
            "unsupported_kind": lambda: client.infer(client.message("image_u8", bytes(12))),
            "too_long": lambda: client.infer_tokens([101] * 600),
        }.items():
            with pytest.raises(itif_client.Refused) as refused:
                attempt()
            assert refused.value.status == status, status
        with pytest.raises(itif_client.Refused, match="malformed"):
            client.infer_tokens([101, 65535, 102])
        with pytest.raises(itif_client.Refused, match="malformed"):
            client.infer(client.message("text", b"\xff\xfe not UTF-8"))
    assert_accounted(appliance)


def test_strangers_are_answered_for_debugging(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["data_plane"]["answer_bad_tags"] = True
    tenant = appliance.start().add_tenant("victim", models())
    for status, wrong in {
        "unknown_tenant": {"tenant_id": tenant["tenant"]["id"] + 1000},
        "bad_tag": {"key": bytes(16)},
        "bad_epoch": {"epoch": 77},
    }.items():
        with connect(namespaces, tenant, max_silent_tries=1, rto_s=0.5) as client:
            for name, value in wrong.items():
                setattr(client, name, value)
            with pytest.raises(itif_client.Refused) as refused:
                client.infer_tokens(IDS)
            assert refused.value.status == status and not refused.value.tagged
    with connect(namespaces, tenant, auth="none", max_silent_tries=1, rto_s=0.5) as client:
        with pytest.raises(itif_client.Refused, match="bad_tag"):
            client.infer_tokens(IDS)
    assert_accounted(appliance)


def test_random_and_mutated_datagrams(appliance, namespaces, tenant):
    rng = random.Random(20)
    with connect(namespaces, tenant) as client, stranger(namespaces) as other:
        good = [changed(client) for _ in range(100)]
        for _ in range(10):
            good += client.tokens(list(range(1000, 1200)), fragment_bytes=64).pieces()
        good += [build(Header(type=itif_client.PING, total_bytes=4), b"ping"), build(Header(type=itif_client.HELLO))]
        sent = 0
        deadline = time.monotonic() + 20
        while sent < 30_000 and time.monotonic() < deadline:
            kind = rng.randrange(3)
            if kind == 0:
                datagram = rng.randbytes(rng.randrange(0, 1400))
            else:
                datagram = bytearray(rng.choice(good))
                for _ in range(rng.randrange(1, 6)):
                    datagram[rng.randrange(len(datagram))] = rng.randrange(256)
                if kind == 2:
                    datagram = datagram[: rng.randrange(len(datagram) + 1)]
            (client if sent % 2 else other).send_raw(bytes(datagram))
            sent += 1
            if sent % 200 == 0:
                time.sleep(0.002)  # lets the receiver keep up: the test is for crashes
        assert appliance.alive()
        drops = assert_accounted(appliance, 10)
        assert drops["total"]["received"] >= sent * 0.9
        assert sum(drops["total"]["dropped"].values()) >= sent * 0.5
        with connect(namespaces, tenant) as fresh:
            assert fresh.infer_tokens(IDS, "logits").payload
    wait_until(lambda: appliance.ctl_json("stats")["datagrams"]["contexts"] == 0, "all contexts are released", 5)
    assert appliance.ctl_json("stats")["datagrams"]["held_bytes"] == 0


def test_changed_geometry_and_overlaps_do_no_harm(appliance, namespaces, tenant):
    with connect(namespaces, tenant, fragment_bytes=64) as client:
        ids = list(range(1000, 1200))
        message = client.tokens(ids, result_kind="logits")
        before = dropped(appliance, "geometry_changed")
        client.send_pieces(message, [0, 1])
        other = client.message("tokens_u16", struct.pack("<400H", *range(1000, 1400)),
                               request_id=message.header.request_id)
        client.send_pieces(other, [2, 3])
        other = client.message("tokens_u16", message.payload, request_id=message.header.request_id,
                               fragment_bytes=128)
        client.send_pieces(other, [1])
        wait_dropped(appliance, "geometry_changed", before + 3)
        assert silent_end(client, message, 3) == "deadline_reassembly"
    assert_accounted(appliance)


def test_half_sent_requests_are_swept(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["data_plane"]["reassembly_timeout"] = "5s"
    tenant = appliance.start().add_tenant("victim", models())
    with connect(namespaces, tenant, fragment_bytes=64) as client:
        messages = [client.tokens(list(range(1000, 1100))) for _ in range(200)]
        for message in messages:
            client.send_pieces(message, [0, 2])
        wait_until(lambda: appliance.ctl_json("stats")["datagrams"]["contexts"] == 200, "they are held", 4)
        assert appliance.ctl_json("drops")["total"]["held"] == 400
        wait_until(lambda: appliance.ctl_json("stats")["datagrams"]["contexts"] == 0, "they are swept", 20)
        drops = assert_accounted(appliance)
        assert drops["total"]["held"] == 0
        swept = drops["total"]["dropped"]
        assert swept.get("reassembly_timeout", 0) + swept.get("deadline_reassembly", 0) == 400
        assert client.infer_tokens(IDS, "logits").payload


def test_half_sent_requests_are_bounded_per_tenant(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["data_plane"].update(max_contexts=300, tenant_max_contexts=100,
                                            reassembly_timeout="3s")
    appliance.start()
    greedy = appliance.add_tenant("greedy", models(seed=1))
    modest = appliance.add_tenant("modest", models(seed=2))
    with connect(namespaces, greedy, fragment_bytes=64) as client, connect(namespaces, modest) as other:
        for _ in range(250):
            client.send_pieces(client.tokens(list(range(1000, 1100))), [0])
        wait_dropped(appliance, "tenant_contexts_full", 150)
        assert other.infer_tokens(IDS, "logits").payload
    assert_accounted(appliance)


def test_the_status_says_where_a_deadline_passed(appliance, namespaces, tenant):
    with connect(namespaces, tenant) as client:
        with pytest.raises(itif_client.Refused) as refused:
            client.infer_tokens([101] + [2000] * 400 + [102], budget_us=1)
        assert refused.value.status in ("deadline_queue", "deadline_launch")
    with connect(namespaces, tenant, fragment_bytes=64) as client:
        message = client.tokens(list(range(1000, 1100)), budget_us=50_000)
        client.send_pieces(message, [0])
        assert silent_end(client, message, 2) == "deadline_reassembly"


def test_frames_with_wrong_lower_layers(appliance, namespaces, tenant):
    ping = build(Header(type=itif_client.PING, total_bytes=4), b"ping")
    # IP fragments are tested in unit tests only, because the kernel reassembles them for
    # af_packet's sockets.
    frames = {
        "ip_checksum": [ipv4(udp(ping), UDP, header_checksum=1)],
        "ip_malformed": [ipv4(udp(ping), UDP, total=1400), b"\x35" + ipv4(udp(ping), UDP)[1:]],
        "ip_not_ours": [ipv4(udp(ping), UDP, target="198.18.0.200")],
        "ip_protocol_other": [ipv4(bytes(40), TCP)],
        "udp_checksum": [ipv4(udp(ping, value=0x1234), UDP)],
        "udp_malformed": [ipv4(udp(ping, length=7), UDP), ipv4(udp(ping, length=900), UDP)],
        "udp_other_port": [ipv4(udp(ping, target_port=53), UDP)],
        "icmp_checksum": [ipv4(icmp_echo(b"x" * 20)[:-1] + b"y", ICMP)],
        "icmp_unsupported": [ipv4(icmp_echo(b"x" * 20, kind=13), ICMP)],
    }
    with wire_to(appliance) as wire:
        for reason, packets in frames.items():
            before = dropped(appliance, reason)
            for packet in packets:
                wire.send(packet)
            wait_dropped(appliance, reason, before + len(packets))
        wire.send(ipv4(udp(build(Header(type=itif_client.PING, total_bytes=5), b"pong!")), UDP))
        assert wire.receive(b"pong!", timeout_s=10), "a valid frame must be answered"
    with connect(namespaces, tenant) as client:
        assert client.infer_tokens(IDS, "logits").payload
    assert_accounted(appliance)
