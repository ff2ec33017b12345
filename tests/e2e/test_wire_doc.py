"""Checks docs/protocol.md against docs/examples/itif_client.py, which was written from it. Needs no root and no
appliance."""

import re
from pathlib import Path

import pytest

import itif_client as wire

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text("utf-8")


def blocks() -> dict[str, tuple[bytes, str]]:
    """Fenced blocks with the info string "hex NAME": {NAME: (bytes, comments)}."""
    out = {}
    for name, body in re.findall(r"^```hex (\w+)\n(.*?)^```", DOCUMENT, re.M | re.S):
        lines = [line.partition("#") for line in body.splitlines()]
        data = bytes.fromhex("".join(hexadecimal for hexadecimal, _, _ in lines))
        out[name] = (data, "\n".join(comment for _, _, comment in lines))
    return out


BLOCKS = blocks()
KEY = BLOCKS.pop("key")[0]


def rows(heading: str) -> list[list[str]]:
    """The body of the first table under a heading."""
    section = DOCUMENT.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.M).group()
    lines = table.splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("name", BLOCKS)
def test_example_is_valid(name):
    data, comments = BLOCKS[name]
    datagram = wire.parse(data)
    if datagram.header.auth:
        assert datagram.open(KEY)
    named = re.findall(r"(\w+)=(0x[0-9a-f]+|\d+)", comments)
    assert {field for field, _ in named} == {field for field, _ in wire.LAYOUT}
    for field, value in named:
        assert getattr(datagram.header, field) == int(value, 0), field


@pytest.mark.parametrize("name", BLOCKS)
def test_example_is_rebuilt(name):
    data, _ = BLOCKS[name]
    datagram = wire.parse(data)
    assert datagram.header.auth == wire.NONE or datagram.open(KEY)
    assert wire.build(datagram.header, datagram.payload, KEY) == data


@pytest.mark.parametrize("name", [n for n, (d, _) in BLOCKS.items() if d[5]])
def test_tampering_is_noticed(name):
    data, _ = BLOCKS[name]
    covers_payload = data[5] != wire.HEADER or data[3] not in (wire.REQUEST, wire.RESPONSE)
    end = len(data) if covers_payload else wire.HEADER_BYTES + wire.TAG_BYTES
    for at in range(end):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        try:
            assert not wire.parse(bytes(damaged)).open(KEY), at
        except wire.Malformed:
            pass


def test_every_type_has_an_example():
    assert {wire.parse(data).header.type for data, _ in BLOCKS.values()} == set(range(1, 11))


def test_header_table():
    at = 0
    table = rows("### Header")
    assert len(table) == len(wire.LAYOUT)
    for (offset, size, name, _), (field, field_size) in zip(table, wire.LAYOUT):
        assert (int(offset), int(size), name) == (at, field_size, field)
        at += field_size
    assert at == wire.HEADER_BYTES


def test_name_tables():
    for heading, names in (
        ("### Types", wire.TYPES),
        ("### Payload kinds", wire.PAYLOAD_KINDS),
        ("## 5. Responses", wire.RESULT_KINDS),
        ("## 6. Status codes", wire.STATUSES),
        ("## 7. Authentication", wire.AUTHS),
    ):
        table = {int(row[0]): row[1] for row in rows(heading)}
        assert table == {i: name for i, name in enumerate(names) if name != "?"}, heading


def test_vectors_of_the_tag():
    assert wire.siphash128(KEY, b"").hex() in DOCUMENT
    assert wire.siphash128(KEY, b"\0").hex() in DOCUMENT
    # From the reference code's vectors_sip128: the input 00 01 … of 15 bytes, a full and a partial
    # word.
    assert wire.siphash128(KEY, bytes(range(15))).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"


def test_encryption():
    """The vector of draft-irtf-cfrg-xchacha-03, appendix A.3."""
    text = (b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen "
            b"would be it.")
    key, nonce = bytes(range(0x80, 0xA0)), bytes(range(0x40, 0x58))
    associated = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    sealed, tag = wire._xchacha20_poly1305(key, nonce, associated, text, True)
    assert sealed.hex().startswith("bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb")
    assert tag.hex() == "c0875924c1c7987947deafd8780acf49"
    assert wire._xchacha20_poly1305(key, nonce, associated, sealed, False) == (text, tag)
    # The key and the nonce that the protocol makes.
    assert wire.siphash128(KEY, b"\1").hex() in DOCUMENT and wire.siphash128(KEY, b"\2").hex() in DOCUMENT
    for name in ("request", "response"):
        datagram = wire.parse(BLOCKS[f"{name}_sealed"][0])
        assert datagram.open(KEY) and datagram.payload == wire.parse(BLOCKS[name][0]).payload


def test_no_sequence_number_is_used_twice():
    numbers = [(h.type in (wire.REQUEST, wire.ACK) or h.flags & wire.OF_RESPONSE, h.sequence)
               for data, _ in BLOCKS.values() if (h := wire.parse(data).header).sequence]
    assert len(numbers) == len(set(numbers)) > 10


def test_the_request_of_two_pieces_is_one_text():
    pieces = [wire.parse(BLOCKS[name][0]) for name in ("request_piece_0", "request_piece_64")]
    text = b"".join(piece.payload for piece in sorted(pieces, key=lambda p: p.header.offset))
    assert len(text) == pieces[0].header.total_bytes
    assert text.decode("utf-8").startswith("The appliance joins pieces")


def test_the_classes_of_the_example():
    datagram = wire.parse(BLOCKS["response_classes"][0])
    classes = wire.decode_classes(datagram.payload)
    assert [(c.index, c.probability, c.name) for c in classes] == [
        (1, 0.75, "positive"),
        (0, 0.25, "neütral"),
    ]
    assert len(classes) == datagram.header.aux
    assert wire.encode_classes(classes) == datagram.payload


def test_answers_to_unverified_senders_are_not_larger_than_requests():
    for question, answer in (("hello", "token"), ("ping", "pong"), ("request", "status_token_required"), ("request", "status_unknown_tenant")):
        assert len(BLOCKS[answer][0]) <= len(BLOCKS[question][0])


@pytest.mark.parametrize(
    "ranges, total",
    [
        ([(0, 0)], 100), ([(2, 4)], 100), ([(0, 6)], 100), ([(0, 104)], 100), ([(100, 4)], 100),
        ([(8, 4), (0, 4)], 100), ([(0, 8), (4, 8)], 100), ([(4, 0xFFFFFFFC)], 100), ([], 100),
        ([(i * 8, 4) for i in range(65)], 1000),
    ],
)  # fmt: skip
def test_bad_ranges_are_refused(ranges, total):
    with pytest.raises(wire.Malformed):
        wire.parse_ranges(wire.build_ranges(ranges), total)


@pytest.mark.parametrize(
    "field, value",
    [
        ("magic", 0), ("version", 1), ("version", 3), ("type", 0), ("type", 11), ("auth", 4), ("header_bytes", 66),
        ("payload_bytes", 11), ("payload_kind", 7), ("result_kind", len(wire.RESULT_KINDS)), ("flags", 0x8000),
        ("flags", wire.OF_RESPONSE), ("status", 1), ("aux", 1), ("fragment_bytes", 0), ("fragment_bytes", 66),
        ("fragment_bytes", 8900), ("offset", 4), ("offset", 1368), ("total_bytes", 9),
        ("total_bytes", (16 << 20) + 1),
    ],
)  # fmt: skip
def test_bad_fields_are_refused(field, value):
    datagram = wire.parse(BLOCKS["request"][0])
    setattr(datagram.header, field, value)
    with pytest.raises(wire.Malformed):
        wire.parse(wire.build(datagram.header, datagram.payload, KEY))
