"""A Scapy layer of the itif wire protocol, version 2 (docs/protocol.md), for tests that need damaged datagrams.

Copy it with itif_client.py, from which it takes the names and the tags. Needs Scapy 2.5 (Debian: python3-scapy).

    from itif_scapy import *                        # Itif is bound to UDP port 9009

    packet = IP(dst="198.18.0.1") / UDP(sport=40000) / Itif(type="ping", request_id=1) / b"hello"
    sr1(packet, timeout=1).show()

Fields whose default is None are computed: header_bytes by auth, payload_bytes, and by type total_bytes, fragment_bytes
and key_epoch. A field that is set is sent as it is, also if it breaks the protocol. signed() makes the tag, and encrypts
the payload of a sealed datagram:

    request = Itif(tenant_id=7, session=9, request_id=1, auth="full", payload_kind="text", token=token) / b"a fine day"
    good = signed(request, key, sequence=1)
    wrong = signed(request, key, sequence=2, total_bytes=5)     # the tag is right: it covers the wrong field
    wrong.flags = "retry"                                       # after signed(): now the tag is wrong, too

    ranges = ItifRanges(ranges=[ItifRange(offset=1368, bytes=1368)])
    resend = signed(Itif(type="resend", flags="of_response", total_bytes=6144, auth="full") / ranges, key)
"""

import struct

from scapy.fields import (
    ByteEnumField, ByteField, ConditionalField, FlagsField, LEIntField, LEShortEnumField, LEShortField,
    PacketListField, XLEIntField, XLELongField, XLEShortField, XStrFixedLenField,
)  # fmt: skip
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet, Raw, bind_bottom_up, bind_top_down

import itif_client as wire

__all__ = ["IP", "UDP", "Raw", "Itif", "ItifRange", "ItifRanges", "opened", "signed"]

FLAGS = ["no_cache", "segments", "retry", "of_response", "truncate", "model_version"]
_MESSAGES = (wire.REQUEST, wire.RESPONSE)
_HAS_TOTAL = (*_MESSAGES, wire.STATUS, wire.PING, wire.PONG)
_FROM_SERVER = (wire.RESPONSE, wire.STATUS, wire.RESEND, wire.BUSY, wire.TOKEN, wire.PONG)
_AT = {}  # field: (offset, bytes) in the header
for _name, _size in wire.LAYOUT:
    _AT[_name] = (sum(size for _, size in _AT.values()), _size)


def _names(names):
    return {number: name for number, name in enumerate(names) if name != "?"}


class ItifRange(Packet):
    """Missing bytes of a message."""

    name = "itif range"
    fields_desc = [LEIntField("offset", 0), LEIntField("bytes", 4)]

    def extract_padding(self, s):
        return b"", s


class ItifRanges(Packet):
    """The payload of a resend."""

    name = "itif ranges"
    fields_desc = [PacketListField("ranges", [], ItifRange)]


class Itif(Packet):
    name = "itif"
    fields_desc = [
        XLEShortField("magic", wire.MAGIC),
        ByteField("version", wire.VERSION),
        ByteEnumField("type", wire.REQUEST, _names(wire.TYPES)),
        ByteField("header_bytes", None),
        ByteEnumField("auth", wire.NONE, _names(wire.AUTHS)),
        LEIntField("tenant_id", 0),
        XLEIntField("session", 0),
        XLELongField("request_id", 0),
        LEIntField("total_bytes", None),
        LEIntField("offset", 0),
        LEIntField("budget_us", 0),
        LEShortField("payload_bytes", None),
        ByteEnumField("payload_kind", 0, _names(wire.PAYLOAD_KINDS)),
        ByteEnumField("result_kind", 0, _names(wire.RESULT_KINDS)),
        FlagsField("flags", 0, -16, FLAGS + [f"bit_{bit}" for bit in range(len(FLAGS), 16)]),
        LEShortField("key_epoch", None),
        LEShortEnumField("status", 0, _names(wire.STATUSES)),  # a response's is the model's version
        LEShortField("fragment_bytes", None),
        LEIntField("aux", 0),
        XLELongField("sequence", 0),
        XLELongField("token", 0),
        ConditionalField(XStrFixedLenField("tag", bytes(wire.TAG_BYTES), wire.TAG_BYTES), lambda p: p.has_tag()),
    ]  # fmt: skip

    @classmethod
    def dispatch_hook(cls, _pkt=None, *_, **__):
        """A datagram shorter than a header is Raw."""
        return Raw if _pkt is not None and len(_pkt) < wire.HEADER_BYTES else cls

    def has_tag(self):
        """Says whether a tag follows the header: header_bytes decides if it is set, otherwise auth."""
        return self.auth != wire.NONE if self.header_bytes is None else self.header_bytes > wire.HEADER_BYTES

    def post_build(self, pkt, pay):
        computed = {
            "header_bytes": wire.HEADER_BYTES + (wire.TAG_BYTES if self.has_tag() else 0),
            "payload_bytes": len(pay),
            "total_bytes": len(pay) if self.type in _HAS_TOTAL else 0,
            "fragment_bytes": wire.DEFAULT_FRAGMENT_BYTES if self.type in (*_MESSAGES, wire.RESEND) else 0,
            "key_epoch": 1 if self.auth != wire.NONE else 0,
        }
        built = bytearray(pkt)
        for field, value in computed.items():
            if getattr(self, field) is None:
                at, size = _AT[field]
                built[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return bytes(built) + pay

    def guess_payload_class(self, payload):
        is_ranges = self.type == wire.RESEND and self.auth != wire.SEALED and len(payload) % 8 == 0
        return ItifRanges if is_ranges else Raw

    def hashret(self):
        return struct.pack("<IIQ", self.tenant_id, self.session, self.request_id)

    def answers(self, other):
        """Lets sr() and sr1() match the server's datagrams with the client's."""
        return isinstance(other, Itif) and self.hashret() == other.hashret() and self.type in _FROM_SERVER

    def mysummary(self):
        return self.sprintf("itif %Itif.type% ") + f"{self.request_id:#x} at {self.offset}, tenant {self.tenant_id}"


def signed(packet, key, **fields):
    """An Itif as it is sent, with `fields` changed, the tag made with `key`, and every field set. A sealed datagram's
    payload is encrypted."""
    packet = packet.copy()
    for field, value in fields.items():
        setattr(packet, field, value)
    data = bytes(packet)
    if not packet.has_tag():
        return Itif(data)
    start = wire.HEADER_BYTES + wire.TAG_BYTES
    header, payload = wire.Header.unpack(data), data[start:]
    if header.auth == wire.SEALED:
        payload, tag = wire._seal(key, header, payload, encrypts=True)
    else:
        tag = wire.make_tag(key, header, payload)
    return Itif(data[: wire.HEADER_BYTES] + tag + payload)


def opened(packet, key):
    """The payload of an Itif, decrypted, or None if its tag is wrong. A datagram without tag is not checked."""
    data = bytes(packet)
    start = wire.HEADER_BYTES + (wire.TAG_BYTES if packet.has_tag() else 0)
    datagram = wire.Datagram(wire.Header.unpack(data), data[wire.HEADER_BYTES : start], data[start:])
    return datagram.payload if not datagram.tag or datagram.open(key) else None


bind_bottom_up(UDP, Itif, sport=wire.DEFAULT_PORT)
bind_bottom_up(UDP, Itif, dport=wire.DEFAULT_PORT)
bind_top_down(UDP, Itif, dport=wire.DEFAULT_PORT)
