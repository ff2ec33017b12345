"""The Scapy layer docs/examples/itif_scapy.py, over the worked examples of docs/protocol.md and against a real
appliance, which answers right datagrams, and drops each damaged one under its reason."""

import itertools
import random

import itif_client as wire
import pytest

pytest.importorskip("scapy", reason="no Scapy: install the package python3-scapy")

from harness.clients import (  # noqa: E402
    assert_accounted, connect, dropped, stranger, u16, wait_until,
)  # fmt: skip
from harness.damaged import damaged  # noqa: E402
from itif_scapy import (  # noqa: E402
    FLAGS, IP, UDP, Itif, ItifRange, ItifRanges, Raw, opened, signed,
)  # fmt: skip
from test_wire_doc import BLOCKS, KEY, rows  # noqa: E402

EXAMPLES = {name: data for name, (data, _) in BLOCKS.items()}
COMPUTED = ("header_bytes", "payload_bytes", "tag")
IDS = (101, 7592, 2088, 999, 102)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_dissected_and_built_again(name):
    data = EXAMPLES[name]
    packet = Itif(data)
    header = wire.parse(data).header
    for field, _ in wire.LAYOUT:
        assert int(getattr(packet, field)) == getattr(header, field), field
    assert bytes(packet) == data and Itif(bytes(packet)) == packet
    again = Itif(**{field: value for field, value in packet.fields.items() if field not in COMPUTED})
    payload = opened(packet, KEY)
    assert payload is not None
    assert bytes(signed(again / payload, KEY)) == data, "computed fields and the tag"
    assert opened(packet, bytes(16)) is None or not header.auth


def test_every_field_may_be_wrong():
    """No field is corrected, and none is lost when the datagram is dissected."""
    draw = random.Random(1)
    for _ in range(300):
        fields = {name: draw.getrandbits(8 * size) for name, size in wire.LAYOUT}
        fields["header_bytes"] = draw.choice((66, 82))
        built = bytes(Itif(**fields, tag=draw.randbytes(16)) / Raw(draw.randbytes(draw.randrange(40))))
        packet = Itif(built)
        assert {name: int(getattr(packet, name)) for name in fields} == fields
        assert bytes(packet) == built


def test_any_bytes_are_dissected_and_built_again():
    draw = random.Random(2)
    for data in EXAMPLES.values():
        for size in range(len(data)):
            assert bytes(Itif(data[:size])) == data[:size]
        for _ in range(50):
            changed = bytearray(data)
            changed[draw.randrange(len(data))] ^= draw.randrange(1, 256)
            assert bytes(Itif(bytes(changed))) == bytes(changed)


def test_names_and_defaults():
    assert FLAGS == [name for _, name, *_ in rows("### Flags")]
    packet = Itif(type="resend", auth="full", flags="of_response+retry", status="overloaded", payload_kind="text",
                  result_kind="classes")
    got = wire.Header.unpack(bytes(packet))
    assert (got.type, got.auth, got.flags) == (wire.RESEND, wire.FULL, wire.OF_RESPONSE | wire.RETRY)
    assert (wire.STATUSES[got.status], got.payload_kind, got.result_kind) == ("overloaded", 3, 6)
    assert (got.header_bytes, got.fragment_bytes, got.key_epoch) == (82, 1368, 1)
    hello = wire.Header.unpack(bytes(Itif(type="hello")))
    assert (hello.header_bytes, hello.fragment_bytes, hello.key_epoch, hello.total_bytes) == (66, 0, 0, 0)
    assert "request 0x5 at 0, tenant 7" in Itif(tenant_id=7, request_id=5).summary()


def test_the_layer_is_bound_to_the_port():
    asked = IP(bytes(IP(dst="198.18.0.1") / UDP(sport=40000) / Itif(EXAMPLES["request"])))
    assert asked[UDP].dport == 9009 and bytes(asked[Itif]) == EXAMPLES["request"]
    replied = IP(bytes(IP() / UDP(sport=9009, dport=40000) / Itif(EXAMPLES["response"])))
    assert bytes(replied[Itif]) == EXAMPLES["response"]
    assert Itif not in IP(bytes(IP() / UDP(sport=1, dport=2) / Raw(EXAMPLES["request"])))
    short = IP(bytes(IP() / UDP(sport=40000, dport=9009) / Raw(EXAMPLES["request"][:65])))
    assert Itif not in short and short[Raw].load == EXAMPLES["request"][:65]


def test_answers_are_matched_with_requests():
    for asked, answered in (("ping", "pong"), ("hello", "token"), ("request", "response"),
                            ("request", "status_overloaded"), ("request_piece_0", "resend_by_server")):
        assert Itif(EXAMPLES[answered]).answers(Itif(EXAMPLES[asked])), asked
    assert not Itif(EXAMPLES["response_sealed"]).answers(Itif(EXAMPLES["request"]))
    assert not Itif(EXAMPLES["ack"]).answers(Itif(EXAMPLES["request"]))


def test_ranges():
    packet = Itif(EXAMPLES["resend_by_client"])
    assert [(each.offset, each.bytes) for each in packet[ItifRanges].ranges] == [(1368, 1368), (5472, 672)]
    packet[ItifRanges].ranges.insert(0, ItifRange(offset=0, bytes=4))
    packet.payload_bytes = None
    assert wire.parse_ranges(wire.parse(bytes(signed(packet, KEY))).payload, 6144)[0] == (0, 4)


# ---- a real appliance


class Sender:
    """Sends Scapy's packets from a client's socket."""

    def __init__(self, client):
        self.client = client
        self.sequence = itertools.count(client.take_sequence() + 1)

    def ask(self, packet):
        self.client.send_raw(bytes(packet))
        data = self.client.receive_raw(10)
        assert data is not None, packet.summary()
        answer = Itif(data)
        assert answer.answers(packet), answer.summary()
        return answer


@pytest.mark.parametrize("auth", wire.AUTHS)
def test_a_request_is_answered(appliance, namespaces, models, auth):
    added = appliance.add_tenant("t", models(), "--auth", auth)
    key = bytes.fromhex(added["key"])
    with connect(namespaces, added) as client:
        expected = client.infer_tokens(IDS, "logits").payload
    with connect(namespaces, added) as client:
        sender = Sender(client)
        same = {"tenant_id": added["tenant"]["id"], "session": client.session}
        pong = sender.ask(Itif(type="ping", request_id=1, **same) / Raw(b"hello"))
        assert pong.type == wire.PONG and pong[Raw].load == b"hello"
        token = sender.ask(Itif(type="hello", request_id=2, **same)).token
        request = Itif(auth=auth, request_id=3, payload_kind="tokens_u16", result_kind="logits", token=token,
                       key_epoch=added["tenant"]["key_epoch"] if auth != "none" else 0, **same)

        def send(**fields):
            return sender.ask(signed(request / u16(*IDS), key, sequence=next(sender.sequence), **fields))

        answer = send()
        assert answer.type == wire.RESPONSE and opened(answer, key) == expected and answer.aux == 1
        assert answer.sprintf("%Itif.result_kind%") == "logits"
        again = send(flags="retry")
        assert again.token == answer.token and opened(again, key) == expected
        refused = send(request_id=4, payload_kind="image_u8")
        assert refused.sprintf("%Itif.type% %Itif.status%") == "status unsupported_kind"
        assert opened(refused, key) is not None
        assert send(request_id=5, token=0).sprintf("%Itif.status%") == "token_required"
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_damaged_datagrams_are_dropped_under_their_reason(appliance, namespaces):
    with stranger(namespaces) as client:
        for name, data, reason in damaged(EXAMPLES, KEY):
            if len(data) > 1472:
                continue  # more than the link's MTU
            before = dropped(appliance, f"wire_{reason}")
            client.send_raw(data)
            wait_until(lambda: dropped(appliance, f"wire_{reason}") == before + 1,
                       lambda: f"{name} is dropped as {reason}: {appliance.ctl_json('drops')['total']}")
        assert client.receive_raw(0.2) is None, "a malformed datagram gets no reply"
        assert client.ping()
    assert_accounted(appliance)
    assert appliance.stop() == 0


def test_a_wrong_tag_is_dropped(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    key = bytes.fromhex(added["key"])
    with connect(namespaces, added, rto_s=5) as client:
        sender = Sender(client)
        request = Itif(tenant_id=added["tenant"]["id"], session=client.session, request_id=3, auth="full",
                       payload_kind="tokens_u16", token=client.hello(), key_epoch=added["tenant"]["key_epoch"])
        for changes in ({"flags": "retry"}, {"request_id": 4}, {"budget_us": 1}, {"tag": bytes(16)}):
            whole = signed(request / u16(*IDS), key, sequence=next(sender.sequence))
            for field, value in changes.items():
                setattr(whole, field, value)
            before = dropped(appliance, "bad_tag")
            client.send_raw(bytes(whole))
            wait_until(lambda: dropped(appliance, "bad_tag") == before + 1, f"{changes} is dropped")
        replayed = signed(request / u16(*IDS), key, sequence=next(sender.sequence))
        assert sender.ask(replayed).type == wire.RESPONSE
        client.send_raw(bytes(replayed))
        wait_until(lambda: dropped(appliance, "replayed") == 1, "the second one is dropped")
    assert_accounted(appliance)
    assert appliance.stop() == 0
