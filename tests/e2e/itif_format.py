"""Datagrams of the itif wire protocol, version 1, written from docs/protocol.md only.

Pure Python 3.11, standard library only, so that end-to-end tests check the appliance against the
document instead of its code. parse() is as strict as the document. build() does not check fields, so that a
test can send wrong ones.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = 0x4649
VERSION = 1
HEADER_BYTES = 50
TAG_BYTES = 16
MIN_FRAGMENT_BYTES = 64
MAX_FRAGMENT_BYTES = 8896
DEFAULT_FRAGMENT_BYTES = 1384
MAX_TOTAL_BYTES = 16 << 20
MAX_RANGES = 64
MAX_DETAIL_BYTES = 512
MAX_CLASS_NAME_BYTES = 1024
DEFAULT_PORT = 9009

TYPES = ["?", "request", "response", "status", "resend", "busy", "ack", "hello", "token", "ping", "pong"]
REQUEST, RESPONSE, STATUS, RESEND, BUSY, ACK, HELLO, TOKEN, PING, PONG = range(1, 11)
AUTHS = ["none", "header", "full"]
PAYLOAD_KINDS = ["none", "tokens_u16", "tokens_u32", "text", "image_u8", "image_f32", "raw"]
RESULT_KINDS = ["default", "hidden", "pooled", "embedding", "logits", "token_logits", "classes", "tokens", "text"]
STATUSES = [
    "ok", "unknown_tenant", "not_admitted", "malformed", "unsupported_kind", "too_long",
    "over_quota", "overloaded", "deadline_reassembly", "deadline_queue", "deadline_launch",
    "draining", "device_failed", "internal", "bad_tag", "token_required", "bad_epoch",
]  # fmt: skip
NO_CACHE, SEGMENTS, RETRY, OF_RESPONSE, TRUNCATE, MODEL_VERSION = 1, 2, 4, 8, 16, 32

_MASK = (1 << 64) - 1


def _rotl(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & _MASK


def siphash128(key: bytes, message: bytes) -> bytes:
    """SipHash-2-4 with 128-bit output (section 7)."""
    k0, k1 = struct.unpack("<2Q", key)
    v0 = k0 ^ 0x736F6D6570736575
    v1 = k1 ^ 0x646F72616E646F6D ^ 0xEE
    v2 = k0 ^ 0x6C7967656E657261
    v3 = k1 ^ 0x7465646279746573

    def rounds(n: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(n):
            v0 = (v0 + v1) & _MASK
            v1 = _rotl(v1, 13) ^ v0
            v0 = _rotl(v0, 32)
            v2 = (v2 + v3) & _MASK
            v3 = _rotl(v3, 16) ^ v2
            v0 = (v0 + v3) & _MASK
            v3 = _rotl(v3, 21) ^ v0
            v2 = (v2 + v1) & _MASK
            v1 = _rotl(v1, 17) ^ v2
            v2 = _rotl(v2, 32)

    padded = message + bytes((7 - len(message)) % 8) + bytes([len(message) % 256])
    for (m,) in struct.iter_unpack("<Q", padded):
        v3 ^= m
        rounds(2)
        v0 ^= m
    v2 ^= 0xEE
    rounds(4)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    rounds(4)
    return struct.pack("<2Q", first, v0 ^ v1 ^ v2 ^ v3)


class Malformed(ValueError):
    """The datagram breaks the protocol."""


# Section 2's table in order: (field, bytes).
LAYOUT = (
    ("magic", 2), ("version", 1), ("type", 1), ("header_bytes", 1), ("auth", 1),
    ("tenant_id", 4), ("session", 4), ("request_id", 8), ("total_bytes", 4), ("offset", 4),
    ("budget_us", 4), ("payload_bytes", 2), ("payload_kind", 1), ("result_kind", 1), ("flags", 2),
    ("key_epoch", 2), ("status", 2), ("fragment_bytes", 2), ("aux", 4),
)  # fmt: skip


@dataclass
class Header:
    type: int = REQUEST
    auth: int = 0
    tenant_id: int = 0
    session: int = 0
    request_id: int = 0
    total_bytes: int = 0
    offset: int = 0
    budget_us: int = 0
    payload_bytes: int | None = None  # None: build() fills it in
    payload_kind: int = 0
    result_kind: int = 0
    flags: int = 0
    key_epoch: int = 0
    status: int = 0
    fragment_bytes: int = 0
    aux: int = 0
    magic: int = MAGIC
    version: int = VERSION
    header_bytes: int | None = None  # None: by auth

    def pack(self) -> bytes:
        values = dict(self.__dict__)
        if values["header_bytes"] is None:
            values["header_bytes"] = HEADER_BYTES + (TAG_BYTES if self.auth else 0)
        return b"".join(values[name].to_bytes(size, "little") for name, size in LAYOUT)

    @classmethod
    def unpack(cls, data: bytes) -> Header:
        header = cls()
        at = 0
        for name, size in LAYOUT:
            setattr(header, name, int.from_bytes(data[at : at + size], "little"))
            at += size
        return header

    def replaced(self, **changes) -> Header:
        return Header(**{**self.__dict__, **changes})


@dataclass
class Datagram:
    header: Header
    tag: bytes = b""
    payload: bytes = b""

    def tag_valid(self, key: bytes) -> bool:
        return bool(self.tag) and self.tag == make_tag(key, self.header, self.payload)


def make_tag(key: bytes, header: Header, payload: bytes) -> bytes:
    return siphash128(key, header.pack() + (payload if header.auth == 2 else b""))


def build(header: Header, payload: bytes = b"", key: bytes = bytes(16)) -> bytes:
    if header.payload_bytes is None:
        header = header.replaced(payload_bytes=len(payload))
    return header.pack() + (make_tag(key, header, payload) if header.auth else b"") + payload


_MESSAGE = {"auth", "key_epoch", "total_bytes", "fragment_bytes", "payload_bytes", "aux"}
_USED = {  # optional fields that each type uses (section 2, "Types")
    REQUEST: _MESSAGE | {"offset", "budget_us", "payload_kind", "result_kind"},
    RESPONSE: _MESSAGE | {"offset", "budget_us", "result_kind", "status"},
    STATUS: {"auth", "key_epoch", "total_bytes", "payload_bytes", "status", "aux"},
    RESEND: _MESSAGE,
    BUSY: {"auth", "key_epoch", "budget_us", "aux"},
    ACK: {"auth", "key_epoch"},
    HELLO: set(),
    TOKEN: {"budget_us", "aux"},
    PING: {"total_bytes", "payload_bytes"},
    PONG: {"total_bytes", "payload_bytes"},
}
_OPTIONAL = set().union(*_USED.values())
_FLAGS = {
    REQUEST: NO_CACHE | SEGMENTS | RETRY | TRUNCATE | MODEL_VERSION,
    RESPONSE: MODEL_VERSION,
    RESEND: OF_RESPONSE,
}


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise Malformed(what)


def parse(data: bytes) -> Datagram:
    """Parses a datagram and checks all rules of sections 2 and 3. Raises Malformed."""
    _need(len(data) >= HEADER_BYTES, "shorter than a header")
    h = Header.unpack(data)
    _need(h.magic == MAGIC, "magic")
    _need(h.version == VERSION, "version")
    _need(h.type in _USED, "type")
    _need(h.auth < len(AUTHS), "auth")
    _need(h.header_bytes == HEADER_BYTES + (TAG_BYTES if h.auth else 0), "header_bytes")
    _need(len(data) == h.header_bytes + h.payload_bytes, "payload_bytes")
    _need(h.payload_kind < len(PAYLOAD_KINDS), "payload_kind")
    _need(h.result_kind < len(RESULT_KINDS), "result_kind")
    for name in _OPTIONAL - _USED[h.type]:
        _need(getattr(h, name) == 0, f"{name} on a {TYPES[h.type]}")
    _need(h.flags & ~_FLAGS.get(h.type, 0) == 0, "flags")
    _need(h.type != STATUS or h.status != 0, "a status that says ok")
    _need(h.type != RESPONSE or h.flags & MODEL_VERSION or h.status == 0, "status on a response")
    if h.type in (REQUEST, RESPONSE, RESEND):
        _need(MIN_FRAGMENT_BYTES <= h.fragment_bytes <= MAX_FRAGMENT_BYTES, "fragment_bytes")
        _need(h.fragment_bytes % 4 == 0, "fragment_bytes")
        _need(h.total_bytes <= MAX_TOTAL_BYTES, "total_bytes")
    if h.type in (REQUEST, RESPONSE):
        _need(h.offset % h.fragment_bytes == 0, "offset")
        _need(h.offset < h.total_bytes or h.offset == h.total_bytes == 0, "offset")
        _need(h.payload_bytes == min(h.fragment_bytes, h.total_bytes - h.offset), "piece length")
    elif h.type != RESEND:
        _need(h.total_bytes == h.payload_bytes, "total_bytes")
        _need(h.type != STATUS or h.payload_bytes <= MAX_DETAIL_BYTES, "status text too long")
    datagram = Datagram(h, data[HEADER_BYTES : h.header_bytes], data[h.header_bytes :])
    if h.type == RESEND:
        parse_ranges(datagram.payload, h.total_bytes)
    return datagram


def parse_ranges(payload: bytes, total_bytes: int) -> list[tuple[int, int]]:
    """A resend's payload as [(offset, bytes)]."""
    _need(len(payload) % 8 == 0 and 1 <= len(payload) // 8 <= MAX_RANGES, "number of ranges")
    ranges = list(struct.iter_unpack("<2I", payload))
    end = 0
    for offset, size in ranges:
        _need(offset >= end and offset % 4 == 0, "range")
        _need(size > 0 and offset + size <= total_bytes, "range")
        end = offset + size
        _need(end % 4 == 0 or end == total_bytes, "range")
    return ranges


def build_ranges(ranges: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack("<2I", *entry) for entry in ranges)


def fragment_bytes_for_mtu(mtu: int) -> int:
    return min((mtu - 40 - 8 - HEADER_BYTES - TAG_BYTES) & ~3, MAX_FRAGMENT_BYTES)


def offsets(total_bytes: int, fragment_bytes: int) -> list[int]:
    """The offsets of a message's pieces."""
    return list(range(0, total_bytes, fragment_bytes)) or [0]


@dataclass
class Class:
    index: int
    probability: float
    name: str


def decode_classes(payload: bytes) -> list[Class]:
    classes = []
    at = 0
    while at < len(payload):
        _need(len(payload) - at >= 12, "class entry cut short")
        index, probability, size = struct.unpack_from("<IfI", payload, at)
        _need(size <= MAX_CLASS_NAME_BYTES, "class name too long")
        end = at + 12 + size
        padded = end + -size % 4
        _need(padded <= len(payload) and not any(payload[end:padded]), "class name cut short")
        classes.append(Class(index, probability, payload[at + 12 : end].decode("utf-8")))
        at = padded
    return classes


def encode_classes(classes: list[Class]) -> bytes:
    out = b""
    for entry in classes:
        name = entry.name.encode("utf-8")
        out += struct.pack("<IfI", entry.index, entry.probability, len(name))
        out += name + bytes(-len(name) % 4)
    return out
