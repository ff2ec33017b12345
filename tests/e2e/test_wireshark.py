"""The Wireshark dissector docs/examples/itif.lua, run by tshark over the worked examples of docs/protocol.md, over
datagrams that break its rules, and over frames of a real appliance."""

import os
import random
import re
import shutil
import socket
import struct
import subprocess
import time
from collections import Counter

import itif_client as wire
import pytest
from harness.captures import LINKTYPE_ETHERNET, PCAP_MAGIC, write_pcap
from harness.clients import connect, stranger, wait_until
from harness.damaged import damaged
from harness.frames import ETH_P_ALL
from harness.tshark import INFO, MESSAGES, SCRIPT, dissect, frame, tshark
from itif_scapy import Itif, ItifRange, ItifRanges, Raw, signed
from test_wire_doc import BLOCKS, KEY
from test_wire_doc import rows as document_rows

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="no tshark: install the package tshark")
EXAMPLES = {name: data for name, (data, _) in BLOCKS.items()}
NAMES = list(EXAMPLES)
HEADER = [name for name, _ in wire.LAYOUT]
FLAGS = [name for _, name, *_ in document_rows("### Flags")]
PCAP_HEAD = struct.pack("<IHHiIII", PCAP_MAGIC, 2, 4, 0, 0, 65535, LINKTYPE_ETHERNET)
REASONS = ["too_short", "bad_magic", "bad_version", "bad_type", "bad_header_size", "bad_length", "bad_kind",
           "bad_field", "bad_geometry", "unexpected_type"]  # fmt: skip
OTHERS = ["tag", "payload", "encrypted", "model_version", "piece", "pieces", "request_in", "response_in", "joined_in",
          "time", "message", "text", "token_id", "value", "range.offset", "range.bytes", "class.index",
          "class.probability", "class.name", "image.height", "image.width", "image.channels", "bad_payload",
          "bad_ranges"]  # fmt: skip
FIELDS = [f"itif.{name}" for name in [*HEADER, *(f"flags.{flag}" for flag in FLAGS), *OTHERS, *REASONS]]


def from_server(data):
    header = wire.Header.unpack(data)
    return header.type in (wire.RESPONSE, wire.STATUS, wire.BUSY, wire.TOKEN, wire.PONG) or (
        header.type == wire.RESEND and not header.flags & wire.OF_RESPONSE)


def expert_reasons(row):
    return [reason for reason in REASONS if row[f"itif.{reason}"]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The dissection of each example, in the document's order."""
    frames = [frame(data, from_server(data)) for data in EXAMPLES.values()]
    return dict(zip(NAMES, dissect(tmp_path_factory.mktemp("tshark"), frames, FIELDS), strict=True))


def frame_of(name):
    return [str(NAMES.index(name) + 1)]


@pytest.mark.parametrize("name", NAMES)
def test_fields_are_those_of_the_comments(rows, name):
    row, (data, comments) = rows[name], BLOCKS[name]
    values = dict(re.findall(r"(\w+)=(0x[0-9a-f]+|\d+)", comments))
    assert set(values) == set(HEADER)
    flags = int(values["flags"])
    if values["type"] == str(wire.RESPONSE) and flags & wire.MODEL_VERSION:
        assert row["itif.model_version"] == [values.pop("status")] and not row["itif.status"]
    for field, value in values.items():
        assert [int(each, 0) for each in row[f"itif.{field}"]] == [int(value, 0)], field
    assert [row[f"itif.flags.{flag}"] for flag in FLAGS] == [
        ["1" if flags >> bit & 1 else "0"] for bit in range(len(FLAGS))]
    header_bytes = int(values["header_bytes"])
    assert "".join(row["itif.tag"]) == data[66:header_bytes].hex()
    payload = "encrypted" if values["auth"] == str(wire.SEALED) else "payload"
    assert "".join(row[f"itif.{payload}"]) == data[header_bytes:].hex()
    assert expert_reasons(row) == [] and not row["itif.bad_payload"] and not row["itif.bad_ranges"]


def test_payloads_are_decoded(rows):
    assert rows["request"]["itif.token_id"] == ["101", "7592", "2088", "999", "102"]
    assert [float(each) for each in rows["response"]["itif.value"]] == [0.5, -0.5, 0.5, -0.5]
    assert not rows["request_sealed"]["itif.token_id"] and not rows["response_sealed"]["itif.value"]
    asked = rows["resend_by_client"]
    assert asked["itif.range.offset"] == ["1368", "5472"] and asked["itif.range.bytes"] == ["1368", "672"]
    classes = rows["response_classes"]
    assert classes["itif.class.index"] == ["1", "0"] and classes["itif.class.name"] == ["positive", "neütral"]
    assert [float(each) for each in classes["itif.class.probability"]] == [0.75, 0.25]
    assert rows["status_overloaded"]["itif.text"] == ["queue is full"]
    assert rows["status_overloaded"][MESSAGES] == ["refused: overloaded"]


def test_pieces_are_joined(rows):
    first, last = rows["request_piece_0"], rows["request_piece_64"]
    assert (first["itif.piece"], first["itif.pieces"]) == (["0"], ["2"])
    assert (last["itif.piece"], last["itif.pieces"]) == (["1"], ["2"])
    assert first["itif.joined_in"] == frame_of("request_piece_64") and not first["itif.text"]
    text = EXAMPLES["request_piece_0"][82:] + EXAMPLES["request_piece_64"][82:]
    assert last["itif.message"] == [text.hex()] and last["itif.text"] == [text.decode()]


def test_answers_are_linked_with_requests(rows):
    for asked, answered in (("ping", "pong"), ("hello", "token"), ("request", "response"),
                            ("request_asks_version", "response_with_version"), ("request_sealed", "response_sealed"),
                            ("request_piece_0", "response_classes"), ("request_piece_64", "response_classes")):
        assert rows[asked]["itif.response_in"] == frame_of(answered), asked
    for answered, asked in (("pong", "ping"), ("token", "hello"), ("response", "request"),
                            ("response_classes", "request_piece_0"), ("status_overloaded", "request")):
        assert rows[answered]["itif.request_in"] == frame_of(asked), answered
        microseconds = NAMES.index(answered) - NAMES.index(asked)  # the frames are one apart
        assert float(rows[answered]["itif.time"][0]) == pytest.approx(microseconds * 1e-6)
    assert rows["busy"]["itif.request_in"] == rows["resend_by_server"]["itif.request_in"] == frame_of(
        "request_piece_0")
    assert rows["request_with_token"]["itif.request_in"] == frame_of("request")
    assert not rows["request_with_token"]["itif.response_in"]


def test_the_info_column_says_it_in_words(rows):
    said = {name: row[INFO][0] for name, row in rows.items()}
    assert said["request_piece_64"] == "request 0x1122334455667789, piece 1 of 2, tenant 7, text, sent again"
    assert said["response"] == "response 0x1122334455667788, piece 0 of 1, tenant 7, embedding"
    assert said["status_overloaded"] == "status overloaded of 0x1122334455667788, tenant 7: queue is full"
    assert said["resend_by_client"] == "resend 2 ranges of the response 0x1122334455667788, tenant 7"
    assert said["busy"] == "busy 0x1122334455667789, 3 requests wait, ask again after 12000 µs, tenant 7"
    assert said["hello"] == "hello 0x112233445566778a, tenant 7"


def test_names_are_those_of_the_document(tmp_path):
    shown = tshark(tmp_path, "-G", "values")
    for field, names in (("type", wire.TYPES), ("auth", wire.AUTHS), ("payload_kind", wire.PAYLOAD_KINDS),
                         ("result_kind", wire.RESULT_KINDS), ("status", wire.STATUSES)):  # fmt: skip
        found = re.findall(rf"^V\titif\.{field}\t(\S+)\t(\S+)$", shown, re.M)
        expected = {number: name for number, name in enumerate(names) if name != "?"}
        assert {int(number, 0): name for number, name in found} == expected


def test_each_flag_has_its_bit(tmp_path):
    frames = [frame(bytes(Itif(flags=flag))) for flag in FLAGS]
    for flag, row in zip(FLAGS, dissect(tmp_path, frames, FIELDS), strict=True):
        assert [name for name in FLAGS if row[f"itif.flags.{name}"] == ["1"]] == [flag]


def test_malformed_datagrams_have_an_expert_info(tmp_path):
    """The first broken rule is the reason for which itifd drops the datagram: test_scapy.py sends the same ones."""
    # Wireshark calls no dissector for an empty datagram.
    cases = [case for case in damaged(EXAMPLES, KEY) if case[1]]
    found = dissect(tmp_path, [frame(data) for _, data, _ in cases], FIELDS)
    for (name, _, reason), row in zip(cases, found, strict=True):
        assert expert_reasons(row)[:1] == [reason], (name, row[MESSAGES])
        assert row[INFO][0].startswith("malformed: ") and row[MESSAGES][0] in row[INFO][0], name


def test_a_client_type_from_the_server_is_unexpected(tmp_path):
    names = ["request", "ack", "hello", "ping", "resend_by_client"]
    for row in dissect(tmp_path, [frame(EXAMPLES[name], from_server=True) for name in names], FIELDS):
        assert expert_reasons(row) == ["unexpected_type"]


def test_version_1_is_named(tmp_path):
    row, = dissect(tmp_path, [frame(b"IF\x01" + bytes(41))], FIELDS)
    assert row[MESSAGES] == ["version 1 of the protocol: a server of version 2 drops it"]
    assert row["itif.version"] == ["1"] and not row["itif.type"], "its fields stand elsewhere"


def test_bad_payloads_and_ranges_have_an_expert_info(tmp_path):
    def made(payload, **fields):
        return bytes(signed(Itif(tenant_id=7, auth="full", **fields) / Raw(payload), KEY))

    def ranges(*pairs):
        listed = ItifRanges(ranges=[ItifRange(offset=at, bytes=size) for at, size in pairs])
        return bytes(signed(Itif(type="resend", flags="of_response", total_bytes=100, fragment_bytes=64) / listed, KEY))

    image = struct.pack("<4H", 2, 3, 1, 0)
    bad_payloads = [
        made(b"\1\2\3", payload_kind="tokens_u16"), made(b"\1\2", payload_kind="tokens_u32"),
        made(b"", payload_kind="tokens_u16"), made(b"", payload_kind="text"), made(b"x", payload_kind="none"),
        made(image + bytes(5), payload_kind="image_u8"), made(image + bytes(6), payload_kind="image_f32"),
        made(image[:7], payload_kind="image_u8"),
    ]  # fmt: skip
    good_payloads = [made(image + bytes(6), payload_kind="image_u8"), made(b"a\0b", payload_kind="text"),
                     made(image + bytes(24), payload_kind="image_f32"), made(b"x", payload_kind="raw")]
    bad_ranges = [ranges((0, 0)), ranges((2, 4)), ranges((0, 6)), ranges((0, 104)), ranges((100, 4)),
                  ranges((8, 4), (0, 4)), ranges((0, 8), (4, 8)), ranges((4, 0xFFFFFFFC))]  # fmt: skip
    good_ranges = [ranges((0, 64), (64, 36)), ranges((96, 4))]
    cases = bad_payloads + good_payloads + bad_ranges + good_ranges
    found = dissect(tmp_path, [frame(data) for data in cases], FIELDS)
    assert [bool(row["itif.bad_payload"]) for row in found] == [data in bad_payloads for data in cases]
    assert [bool(row["itif.bad_ranges"]) for row in found] == [data in bad_ranges for data in cases]
    assert found[len(bad_payloads) + 1]["itif.text"] == ["a", "b"]
    assert found[len(bad_payloads)]["itif.image.width"] == ["3"]
    classes = bytearray(EXAMPLES["response_classes"])
    classes[90] = 200  # name_bytes
    row, = dissect(tmp_path, [frame(bytes(classes), from_server=True)], FIELDS)
    assert row["itif.bad_payload"]


def test_tags_are_checked_with_a_key(tmp_path):
    tagged = {name: Itif(data) for name, data in EXAMPLES.items() if data[5] in (wire.HEADER, wire.FULL)}
    wrong, unprotected = [], []
    for name, packet in tagged.items():
        payload = bytes(packet)[82:]
        if payload:
            changed = packet.copy()
            changed.remove_payload()
            changed /= Raw(payload[:-1] + bytes([payload[-1] ^ 1]))
            is_open = packet.auth == wire.HEADER and packet.type in (wire.REQUEST, wire.RESPONSE)
            (unprotected if is_open else wrong).append(bytes(changed))
        changed = packet.copy()
        changed.sequence += 1
        wrong.append(bytes(changed))
    right = [bytes(packet) for packet in tagged.values()] + unprotected
    frames = [frame(data, from_server(data)) for data in right + wrong]
    fields = [*FIELDS, "itif.tag_right", "itif.bad_tag"]

    def checked(keys):
        return [(row["itif.tag_right"], bool(row["itif.bad_tag"]))
                for row in dissect(tmp_path, frames, fields, "-o", f"itif.keys:{keys}")]

    expected = [(["1"], False)] * len(right) + [(["0"], True)] * len(wrong)
    assert len(unprotected) == 3 and len(wrong) > 20
    assert checked(f"7={KEY.hex()}") == expected
    assert checked(f"9={bytes(16).hex()}, 7={bytes(16).hex()}, 7={KEY.hex()}") == expected
    assert checked(f"7={bytes(16).hex()}") == [(["0"], True)] * len(frames)
    assert checked("") == checked(f"8={KEY.hex()}") == checked("7=00") == [([], False)] * len(frames)


def test_malformed_keys_are_reported(tmp_path):
    """Once, by the tenant's id: the rest may be a mistyped key. The other entries count."""
    path = tmp_path / "in.pcap"
    write_pcap(path, [frame(EXAMPLES["request"]), frame(EXAMPLES["ping"])])

    def said(keys):
        done = subprocess.run(("tshark", "-X", f"lua_script:{SCRIPT}", "-o", f"itif.keys:{keys}", "-r", str(path),
                               "-T", "fields", "-e", "itif.tag_right"), capture_output=True, text=True, timeout=60,
                              env={**os.environ, "WIRESHARK_CONFIG_DIR": str(tmp_path)}, check=True)  # fmt: skip
        return done.stdout.split(), [line for line in done.stderr.splitlines() if "itif.keys" in line]

    good = f"7={KEY.hex()}"
    assert said(good) == (["1"], [])
    for malformed, name in (("1=zz", "1"), (f"12={KEY.hex()[:-1]}", "12"), (f"7={KEY.hex()}zz", "7"), ("secret", "?")):
        tags, reports = said(f"{malformed}, {good}")
        assert tags == ["1"], malformed
        assert len(reports) == 1 and f"the entry of tenant {name} is not TENANT-ID=KEY" in reports[0], reports
        assert KEY.hex()[:-1] not in reports[0] and "secret" not in reports[0]


def test_other_ports(tmp_path):
    """The heuristic finds the protocol on any port; the preference adds ports, on which anything is dissected."""
    ping, junk = frame(EXAMPLES["ping"], server_port=7777), frame(b"IF" + bytes(80), server_port=7777)
    seen = dissect(tmp_path, [ping, junk], FIELDS)
    assert [row["itif.type"] for row in seen] == [["9"], []] and not seen[1]["itif.bad_version"]
    former, former_junk = frame(EXAMPLES["pong"]), frame(b"IF" + bytes(80))
    seen = dissect(tmp_path, [ping, junk, former, former_junk], FIELDS, "-o", "itif.ports:7000-7777")
    assert [row["itif.type"] for row in seen[:1]] == [["9"]] and seen[1]["itif.bad_version"]
    assert seen[2]["itif.type"] == ["10"] and not seen[2]["itif.unexpected_type"] and not seen[3]["itif.bad_version"]


def test_cut_and_changed_datagrams_are_no_error_of_the_script(tmp_path):
    frames = []
    for data in EXAMPLES.values():
        frames += [frame(data[:size]) for size in range(1, len(data), 3)]
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= 0xFF
            frames.append(frame(bytes(changed), from_server(data)))
    assert len(dissect(tmp_path, frames, FIELDS)) == len(frames)


def test_a_capture_that_cuts_datagrams(tmp_path):
    """As with `-s 100` of a capture program: the header is shown, and no rule is broken."""
    path = tmp_path / "cut.pcap"
    whole = [frame(EXAMPLES[name]) for name in ("request_piece_0", "request")]
    path.write_bytes(PCAP_HEAD + b"".join(struct.pack("<IIII", 0, 0, kept, len(each)) + each[:kept]
                                          for each, kept in zip(whole, (42 + 90, 42 + 30))))
    seen = dissect(tmp_path, path, [*FIELDS, "itif.cut"])
    assert all(row["itif.cut"] and not expert_reasons(row) for row in seen)
    assert seen[0]["itif.total_bytes"] == ["100"] and len(seen[0]["itif.payload"][0]) == 16


# ---- frames of a real appliance


def test_random_damage_is_judged_as_by_itifd(appliance, namespaces, tmp_path):
    """Several rules may be broken: the first expert info is the reason that itifd counts."""
    draw = random.Random(3)
    made = []
    for _ in range(600):
        packet = Itif(draw.choice(list(EXAMPLES.values())))
        for _ in range(draw.choice((1, 1, 2, 3))):
            field, size = draw.choice(wire.LAYOUT[1:])
            bits = 8 * size
            setattr(packet, field, draw.choice((0, 1, draw.randrange(8), draw.getrandbits(bits), 64, (1 << bits) - 1)))
        made.append(bytes(packet))
    found = Counter(f"wire_{reasons[0]}" for row in dissect(tmp_path, [frame(data) for data in made], FIELDS)
                    if (reasons := expert_reasons(row)))
    with stranger(namespaces) as client:
        for data in made:
            client.send_raw(data)
            time.sleep(0.001)
    wait_until(lambda: appliance.ctl_json("drops")["total"]["received"] >= len(made), "all are received")
    dropped = appliance.ctl_json("drops")["total"]["dropped"]
    assert {reason: count for reason, count in dropped.items() if reason.startswith("wire_")} == dict(found)
    assert len(found) >= 7
    assert appliance.stop() == 0


class Tap:
    """Records the frames of the clients' link."""

    def __init__(self, namespaces):
        self.raw = namespaces.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.raw.settimeout(0.2)

    def frames(self):
        out = []
        try:
            while True:
                out.append(self.raw.recv(65536))
        except TimeoutError:
            return out
        finally:
            self.raw.close()


def test_traffic_of_a_real_appliance(appliance, namespaces, models, tmp_path):
    added = appliance.add_tenant("t", models())
    sealed = appliance.add_tenant("sealed", models(seed=2), "--auth", "sealed")
    ids = [101, *range(2000, 2100), 102]
    tap = Tap(namespaces)
    with connect(namespaces, added, fragment_bytes=64, rto_s=5, gap_s=5) as client:
        assert client.ping()
        hidden = client.infer_tokens(ids, "hidden")
        labels = client.infer_tokens(ids, "classes")
        with pytest.raises(wire.Refused, match="malformed"):
            client.infer_tokens([65535], "logits")
    with connect(namespaces, sealed) as client:
        client.infer_tokens(ids, "logits")
    write_pcap(tmp_path / "real.pcap", tap.frames())
    seen = [row for row in dissect(tmp_path, tmp_path / "real.pcap", FIELDS) if row["itif.type"]]
    assert all(expert_reasons(row) == [] for row in seen)
    assert not any(row["itif.bad_payload"] or row["itif.bad_ranges"] for row in seen)
    kinds = {wire.TYPES[int(row["itif.type"][0])] for row in seen}
    assert kinds >= {"hello", "token", "ping", "pong", "request", "response", "ack", "status"}

    tenant = str(added["tenant"]["id"])
    mine = [row for row in seen if row["itif.tenant_id"] == [tenant]]
    requests = [row for row in mine if row["itif.type"] == [str(wire.REQUEST)]]
    whole = [row for row in requests if row["itif.message"]]
    assert len(whole) == 2 and all(row["itif.token_id"] == list(map(str, ids)) for row in whole)
    assert all(row["itif.response_in"] for row in requests)
    answers = [row for row in mine if row["itif.type"] == [str(wire.RESPONSE)]]
    assert all(row["itif.request_in"] and 0 < float(row["itif.time"][0]) < 30 for row in answers)
    joined = [row for row in answers if row["itif.message"]]
    assert [row["itif.message"] for row in joined][:1] == [[hidden.payload.hex()]]
    assert {"".join(row["itif.pieces"]) for row in answers} >= {str(hidden.pieces)}
    assert [row["itif.class.name"] for row in answers if row["itif.class.name"]] == [
        [entry.name for entry in labels.value()]]
    refused = [row for row in mine if row["itif.type"] == [str(wire.STATUS)]]
    assert "malformed" in refused[-1][INFO][0]
    encrypted = [row for row in seen if row["itif.encrypted"]]
    assert len(encrypted) >= 2 and not any(row["itif.token_id"] or row["itif.value"] for row in encrypted)
    assert appliance.stop() == 0
