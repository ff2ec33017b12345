#!/usr/bin/env python3
"""A client of the itif wire protocol, version 2, in one file without dependencies: copy it into your program.

Pure Python 3.11, written from docs/protocol.md only, so that the end-to-end tests, which use it, check the appliance
against the document instead of its code. It is meant for scripts and tests; encryption (`sealed`) in particular is
slow. docs/examples/ask.cc shows the C++ client, which is fast.

    client = Client("198.18.0.1", 9009, tenant_id=1, key=bytes.fromhex("…"), epoch=1)
    answer = client.infer_text("a fine day")      # Answer, or raises Refused or Lost
    answer.value()                                # lists of floats, or classes

    python3 itif_client.py 198.18.0.1 1 5f0c6a1de6e0b0f2a3b1c2d3e4f50617 "a fine day"

A Client belongs to one thread and sends one request at a time. infer_text() and infer_tokens() follow the protocol.
Tests of wrong behaviour use message(), send_pieces(), send_raw() and wait():

    message = client.tokens(range(2000))          # send the second piece twice, the first last
    client.send_pieces(message, [1, 1, 2, 0])
    answer = client.wait(message)

parse() is as strict as the document. build() does not check fields, so that a test can send wrong ones.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hmac
import os
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

MAGIC = 0x4649
VERSION = 2
HEADER_BYTES = 66
TAG_BYTES = 16
MIN_FRAGMENT_BYTES = 64
MAX_FRAGMENT_BYTES = 8896
DEFAULT_FRAGMENT_BYTES = 1368
MAX_TOTAL_BYTES = 16 << 20
MAX_RANGES = 64
MAX_DETAIL_BYTES = 512
MAX_CLASS_NAME_BYTES = 1024
DEFAULT_PORT = 9009

TYPES = ["?", "request", "response", "status", "resend", "busy", "ack", "hello", "token", "ping", "pong"]
REQUEST, RESPONSE, STATUS, RESEND, BUSY, ACK, HELLO, TOKEN, PING, PONG = range(1, 11)
AUTHS = ["none", "header", "full", "sealed"]
NONE, HEADER, FULL, SEALED = range(4)
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


_M32 = (1 << 32) - 1


def _chacha_rounds(state: list[int]) -> list[int]:
    """The 20 rounds of ChaCha20 (RFC 8439), without the final addition."""
    x = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        x[a] = (x[a] + x[b]) & _M32
        r = x[d] ^ x[a]
        x[d] = (r << 16 | r >> 16) & _M32
        x[c] = (x[c] + x[d]) & _M32
        r = x[b] ^ x[c]
        x[b] = (r << 12 | r >> 20) & _M32
        x[a] = (x[a] + x[b]) & _M32
        r = x[d] ^ x[a]
        x[d] = (r << 8 | r >> 24) & _M32
        x[c] = (x[c] + x[d]) & _M32
        r = x[b] ^ x[c]
        x[b] = (r << 7 | r >> 25) & _M32

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return x


_SIGMA = struct.unpack("<4I", b"expand 32-byte k")


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The subkey of XChaCha20, from the first 16 bytes of its nonce."""
    x = _chacha_rounds([*_SIGMA, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce)])
    return struct.pack("<8I", *x[:4], *x[12:])


def _chacha20(key: bytes, nonce: bytes, counter: int, data: bytes) -> bytes:
    """Encrypts, and decrypts, with ChaCha20 of a 12-byte nonce (RFC 8439)."""
    out = bytearray()
    for at in range(0, len(data), 64):
        state = [*_SIGMA, *struct.unpack("<8I", key), counter + at // 64, *struct.unpack("<3I", nonce)]
        block = struct.pack("<16I", *((a + b) & _M32 for a, b in zip(state, _chacha_rounds(state))))
        out += bytes(a ^ b for a, b in zip(data[at : at + 64], block))
    return bytes(out)


def _poly1305(key: bytes, message: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(key[16:], "little")) & ((1 << 128) - 1)).to_bytes(16, "little")


def _xchacha20_poly1305(key: bytes, nonce: bytes, associated: bytes, payload: bytes, encrypts: bool) -> tuple[bytes, bytes]:
    """The other text and the tag, for a key of 32 and a nonce of 24 bytes (draft-irtf-cfrg-xchacha-03)."""
    subkey, rest = hchacha20(key, nonce[:16]), bytes(4) + nonce[16:]
    other = _chacha20(subkey, rest, 1, payload)
    sealed = other if encrypts else payload
    covered = associated + bytes(-len(associated) % 16) + sealed + bytes(-len(sealed) % 16)
    covered += struct.pack("<2Q", len(associated), len(sealed))
    return other, _poly1305(_chacha20(subkey, rest, 0, bytes(32)), covered)


class Malformed(ValueError):
    """The datagram breaks the protocol."""


# Section 2's table in order: (field, bytes).
LAYOUT = (
    ("magic", 2), ("version", 1), ("type", 1), ("header_bytes", 1), ("auth", 1),
    ("tenant_id", 4), ("session", 4), ("request_id", 8), ("total_bytes", 4), ("offset", 4),
    ("budget_us", 4), ("payload_bytes", 2), ("payload_kind", 1), ("result_kind", 1), ("flags", 2),
    ("key_epoch", 2), ("status", 2), ("fragment_bytes", 2), ("aux", 4), ("sequence", 8), ("token", 8),
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
    sequence: int = 0
    token: int = 0
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

    def open(self, key: bytes) -> bool:
        """Checks the tag, and decrypts the payload of a sealed datagram. False: leave it unused."""
        if self.header.auth == SEALED:
            text, tag = _seal(key, self.header, self.payload, encrypts=False)
        else:
            text, tag = self.payload, make_tag(key, self.header, self.payload)
        if not self.tag or not hmac.compare_digest(self.tag, tag):
            return False
        self.payload = text
        return True


def make_tag(key: bytes, header: Header, payload: bytes) -> bytes:
    """The tag of `header` and `full`."""
    covers_payload = header.auth != HEADER or header.type not in (REQUEST, RESPONSE)
    return siphash128(key, header.pack() + (payload if covers_payload else b""))


def _seal(key: bytes, header: Header, payload: bytes, encrypts: bool) -> tuple[bytes, bytes]:
    long_key = siphash128(key, b"\1") + siphash128(key, b"\2")
    nonce = struct.pack("<2QIBHx", header.sequence, header.request_id, header.session, header.type, header.flags)
    return _xchacha20_poly1305(long_key, nonce, header.pack(), payload, encrypts)


def build(header: Header, payload: bytes = b"", key: bytes = bytes(16)) -> bytes:
    if header.payload_bytes is None:
        header = header.replaced(payload_bytes=len(payload))
    if header.auth == NONE:
        return header.pack() + payload
    if header.auth == SEALED:
        payload, tag = _seal(key, header, payload, encrypts=True)
        return header.pack() + tag + payload
    return header.pack() + make_tag(key, header, payload) + payload


_TAGGED = {"auth", "key_epoch", "sequence"}
_MESSAGE = _TAGGED | {"total_bytes", "fragment_bytes", "payload_bytes"}
_USED = {  # optional fields that each type uses (section 2, "Types")
    REQUEST: _MESSAGE | {"offset", "budget_us", "payload_kind", "result_kind", "token"},
    RESPONSE: _MESSAGE | {"offset", "budget_us", "result_kind", "status", "aux", "token"},
    STATUS: _TAGGED | {"total_bytes", "payload_bytes", "status", "aux", "token"},
    RESEND: _MESSAGE | {"token"},
    BUSY: _TAGGED | {"budget_us", "aux"},
    ACK: _TAGGED | {"token"},
    HELLO: set(),
    TOKEN: {"budget_us", "token"},
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
        _need(h.payload_bytes % 8 == 0 and 1 <= h.payload_bytes // 8 <= MAX_RANGES, "number of ranges")
        _need(h.total_bytes > 0, "total_bytes")
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


# Statuses without a tag, because client and server share no key. They are only hints (section 7).
UNTAGGED_STATUSES = {"unknown_tenant", "bad_tag", "bad_epoch"}


class Refused(Exception):
    """The server ended the request with a status."""

    def __init__(self, datagram: Datagram):
        h = datagram.header
        self.code = h.status
        self.status = STATUSES[h.status] if h.status < len(STATUSES) else f"code {h.status}"
        self.detail = datagram.payload.decode("utf-8", "replace")
        self.retry_after_us = h.aux
        self.token = h.token  # of token_required: a new one
        self.tagged = h.auth != 0
        super().__init__(f"{self.status}: {self.detail}" if self.detail else self.status)


class Lost(Exception):
    """No complete answer arrived in time, or the server cannot be reached."""


# Errors of the kernel or of ICMP which say that the server cannot be reached.
_UNREACHABLE = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN,
                errno.EACCES, errno.EPERM}  # fmt: skip
# The kernel asks for a neighbour three times, once a second, before it reports that none answers.
_NEIGHBOUR_S = 4.0


def why_unreachable(error: OSError, address: str, port: int) -> str:
    where = f"{address} port {port}"
    if error.errno == errno.ECONNREFUSED:
        return f"nobody listens at {where}: its host refuses datagrams to it"
    if error.errno in (errno.EHOSTUNREACH, errno.EHOSTDOWN):
        return (f"no host answers for {where} ({error.strerror}): check that it runs, its address, and the way to it "
                f"(ip route get {address}; ip neighbour)")  # fmt: skip
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"a firewall forbids datagrams to {where} ({error.strerror}): nft list ruleset"
    return f"there is no route to {where} ({error.strerror}): ip route get {address}"


def parse_server(text: str) -> tuple[str, int]:
    """Host and port of HOST, HOST:PORT, [IPV6]:PORT or IPV6. Raises ValueError."""
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or rest:
            port = rest[1:] if rest.startswith(":") else ""
    elif text.count(":") == 1:
        host, port = text.split(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"'{text}' is not HOST, HOST:PORT or [IPV6]:PORT")
    return host, int(port)


@dataclass
class Answer:
    """A complete response, and statistics of its transfer."""

    result_kind: str = ""
    payload: bytes = b""
    rows: int = 0
    server_us: int = 0
    model_version: int | None = None  # modulo 65536; None: the request did not ask
    pieces: int = 0
    tries: int = 1  # sends of the request, without pieces that the server asked for
    resends_served: int = 0
    resends_asked: int = 0
    busy: int = 0
    latency_s: float = 0.0

    def floats(self) -> list[float]:
        return list(struct.unpack(f"<{len(self.payload) // 4}f", self.payload))

    def value(self):
        """[Class], [int], str or [float]; [[float]] for kinds that have a row for each token."""
        if self.result_kind == "classes":
            return decode_classes(self.payload)
        if self.result_kind == "tokens":
            return list(struct.unpack(f"<{len(self.payload) // 4}I", self.payload))
        if self.result_kind == "text":
            return self.payload.decode("utf-8")
        flat = self.floats()
        if self.result_kind not in ("hidden", "token_logits"):
            return flat
        columns = len(flat) // self.rows
        return [flat[row * columns : (row + 1) * columns] for row in range(self.rows)]

    def numpy(self):
        import numpy

        array = numpy.frombuffer(self.payload, dtype="<f4")
        return array.reshape(self.rows, -1) if self.rows > 1 else array


class Newest:
    """The newest sequence numbers of the server's datagrams about one request (section 7), for two counts."""

    REACH = 1 << 40

    def __init__(self):
        self.numbers: list[int] = []  # the count that was used last comes first

    def advance(self, number: int) -> bool:
        """False: an old datagram, which is late or was captured and sent again."""
        for index, newest in enumerate(self.numbers):
            if (newest - number) & _MASK < self.REACH:
                return False
            if (number - newest) & _MASK < self.REACH:
                del self.numbers[index]
                break
        self.numbers = [number, *self.numbers[:1]]
        return True


@dataclass
class Message:
    """A request that has not been sent yet."""

    header: Header  # of every piece, except offset, payload_bytes, sequence and token
    payload: bytes
    client: Client

    @property
    def key(self) -> bytes:
        return self.client.key

    def offsets(self) -> list[int]:
        return offsets(len(self.payload), self.header.fragment_bytes)

    def piece(self, offset: int, **changes) -> bytes:
        """A new datagram of one piece. `changes` replace header fields before the tag is made."""
        fields = {"offset": offset, "sequence": self.client.take_sequence(), "token": self.client.token}
        header = self.header.replaced(**{**fields, **changes})
        end = offset + self.header.fragment_bytes
        return build(header, self.payload[offset:end], self.key)

    def pieces(self, **changes) -> list[bytes]:
        return [self.piece(offset, **changes) for offset in self.offsets()]

    def about(self, type: int, **fields) -> Header:
        """The header of another datagram about this request."""
        h = self.header
        return Header(type=type, auth=h.auth, tenant_id=h.tenant_id, session=h.session,
                      request_id=h.request_id, key_epoch=h.key_epoch, token=self.client.token,
                      sequence=self.client.take_sequence(), **fields)  # fmt: skip


@dataclass
class Client:
    address: str
    port: int = DEFAULT_PORT
    tenant_id: int = 0
    key: bytes = bytes(16)
    epoch: int = 1
    auth: str = "full"
    fragment_bytes: int = DEFAULT_FRAGMENT_BYTES
    session: int = field(default_factory=lambda: int.from_bytes(os.urandom(4), "little"))
    rto_s: float = 0.05  # the shortest wait before a repeat
    max_rto_s: float = 1.0
    max_silent_tries: int = 10
    gap_s: float = 0.005  # the shortest wait before missing pieces of a response are asked for
    token: int = 0  # the address token; 0: none yet
    local: tuple[str, int] | None = None  # address and port to send from

    def __post_init__(self):
        if len(self.key) != 16:
            raise ValueError(f"a key has 16 bytes, found {len(self.key)}")
        for name, value, most in (("tenant id", self.tenant_id, 2**32), ("epoch", self.epoch, 2**16)):
            if not 0 <= value < most:
                raise ValueError(f"the {name} must be between 0 and {most - 1}, found {value}")
        if not 0 < self.port < 65536:
            raise ValueError(f"the port must be between 1 and 65535, found {self.port}")
        try:  # its result has the interface of fe80::…%interface, too
            family, *_, server = socket.getaddrinfo(self.address, self.port, type=socket.SOCK_DGRAM)[0]
        except socket.gaierror as error:
            raise Lost(f"'{self.address}' is not an address or a known host name: {error.strerror}") from None
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if family == socket.AF_INET:
            # Don't Fragment: IP_MTU_DISCOVER = 10, IP_PMTUDISC_DO = 2 (Linux; not in `socket`).
            self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)
        # IP_RECVERR, IPV6_RECVERR: without it the kernel reports a closed port, but not an absent host.
        self.socket.setsockopt(*((socket.IPPROTO_IP, 11) if family == socket.AF_INET else (socket.IPPROTO_IPV6, 25)), 1)
        if self.local:
            self.socket.bind(self.local)
        try:
            self.socket.connect(server)
        except OSError as error:
            self.socket.close()
            if error.errno in _UNREACHABLE:
                raise Lost(why_unreachable(error, self.address, self.port)) from None
            raise
        self.next_request_id = int.from_bytes(os.urandom(8), "little") >> 1
        self.next_sequence = int.from_bytes(os.urandom(8), "little") >> 2
        self.token_renew_s = 0.0  # when to ask for a new one
        self.refusals = 0  # ICMP "port unreachable", since the last exchange began
        self.unreachable: OSError | None = None  # another such error, since then
        self.wrong_tags = 0  # datagrams about our requests whose tag was wrong
        self.latency_s = self.deviation_s = 0.0  # of answers, smoothed (RFC 6298)
        self.round_trip_s = 0.0  # of the last hello, or ping, that was sent once

    def close(self):
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_):
        self.close()

    # Datagrams.

    def take_sequence(self) -> int:
        """A number for one datagram, never given before."""
        self.next_sequence += 1
        return self.next_sequence

    def send_raw(self, data: bytes):
        """Sends bytes unchanged. Only notes that the server cannot be reached (yet); timers handle that."""
        try:
            self.socket.send(data)
        except OSError as error:
            self._note(error)

    def receive_raw(self, timeout_s: float) -> bytes | None:
        deadline = time.monotonic() + timeout_s
        while True:
            self.socket.settimeout(max(deadline - time.monotonic(), 1e-6))
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                self._note(error)
                if time.monotonic() >= deadline:
                    return None
                continue
            return data

    def _note(self, error: OSError):
        """Notes that the server cannot be reached. Raises other errors."""
        if error.errno == errno.EMSGSIZE:
            raise Lost("the datagrams exceed the path MTU: choose a smaller fragment_bytes") from None
        if error.errno not in _UNREACHABLE:
            raise error
        if error.errno == errno.ECONNREFUSED:
            self.refusals += 1
        else:
            self.unreachable = error
        timeout_s = self.socket.gettimeout()
        self.socket.settimeout(0)
        with contextlib.suppress(OSError):
            while True:  # ICMP's reports stay in a queue, which takes the receive buffer's room
                self.socket.recvmsg(0, 0, socket.MSG_ERRQUEUE)
        self.socket.settimeout(timeout_s)

    def receive(self, timeout_s: float) -> Datagram | None:
        """The next well-formed datagram of any kind; others are skipped."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if (data := self.receive_raw(left)) is None:
                return None
            try:
                return parse(data)
            except Malformed:
                continue
        return None

    def receive_for(self, request_id: int, timeout_s: float, hello_id: int | None = None) -> Datagram | None:
        """The next datagram about a request that is authentic, decrypted, or a refusal without a tag; or the token
        for this hello."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if (datagram := self.receive(left)) is None:
                return None
            h = datagram.header
            wanted = hello_id if h.type == TOKEN and hello_id is not None else request_id
            if (h.tenant_id, h.session, h.request_id) != (self.tenant_id, self.session, wanted):
                continue
            if is_hint(datagram) or self.open(datagram):
                return datagram
            self.wrong_tags += 1
        return None

    def open(self, datagram: Datagram) -> bool:
        h = datagram.header
        if h.type in (TOKEN, PONG):
            return True
        return h.auth >= AUTHS.index(self.auth) and (h.auth == NONE or datagram.open(self.key))

    # Requests, not yet sent.

    def message(self, kind: str, payload: bytes, *, result_kind=0, budget_us=0, flags=0,
                request_id: int | None = None, fragment_bytes: int | None = None) -> Message:  # fmt: skip
        if request_id is None:
            request_id = self.next_request_id
            self.next_request_id += 1
        if isinstance(result_kind, str):
            result_kind = RESULT_KINDS.index(result_kind)
        auth = AUTHS.index(self.auth)
        header = Header(
            type=REQUEST, auth=auth, tenant_id=self.tenant_id, session=self.session,
            request_id=request_id, total_bytes=len(payload), budget_us=budget_us,
            payload_kind=PAYLOAD_KINDS.index(kind), result_kind=result_kind, flags=flags,
            key_epoch=self.epoch if auth else 0,
            fragment_bytes=fragment_bytes or self.fragment_bytes,
        )  # fmt: skip
        return Message(header, payload, self)

    def tokens(self, ids, dtype: str = "u16", **options) -> Message:
        code = {"u16": "H", "u32": "I"}[dtype]
        return self.message(f"tokens_{dtype}", struct.pack(f"<{len(ids)}{code}", *ids), **options)

    def text(self, text: str, pair: str | None = None, **options) -> Message:
        whole = text if pair is None else text + "\0" + pair
        return self.message("text", whole.encode("utf-8"), **options)

    # Sending them.

    def send_pieces(self, message: Message, order: list[int] | None = None, **changes):
        """Sends the pieces with the indices in `order`, which may repeat or omit some. None: all, in order. Says
        hello before, unless it has a token."""
        if "token" not in changes and time.monotonic() >= self.token_renew_s:
            self.hello()
        offsets_ = message.offsets()
        for index in range(len(offsets_)) if order is None else order:
            self.send_raw(message.piece(offsets_[index], **changes))

    def send_resend(self, message: Message, ranges, total_bytes: int, fragment_bytes: int):
        """Asks for parts of the response."""
        header = message.about(RESEND, flags=OF_RESPONSE, total_bytes=total_bytes,
                               fragment_bytes=fragment_bytes)  # fmt: skip
        self.send_raw(build(header, build_ranges(ranges), message.key))

    def send_ack(self, message: Message):
        self.send_raw(build(message.about(ACK), b"", message.key))

    # The client of section 9.

    def infer_tokens(self, ids, result_kind=0, dtype="u16", budget_us=0, timeout_s=10.0,
                     **options) -> Answer:  # fmt: skip
        message = self.tokens(ids, dtype, result_kind=result_kind, budget_us=budget_us, **options)
        return self.infer(message, timeout_s)

    def infer_text(self, text: str, pair: str | None = None, result_kind=0, budget_us=0,
                   timeout_s=10.0, **options) -> Answer:  # fmt: skip
        message = self.text(text, pair, result_kind=result_kind, budget_us=budget_us, **options)
        return self.infer(message, timeout_s)

    def infer(self, message: Message, timeout_s=10.0) -> Answer:
        """Sends a request and waits for its answer. Raises Refused or Lost."""
        piece_bytes = message.header.fragment_bytes
        if not MIN_FRAGMENT_BYTES <= piece_bytes <= MAX_FRAGMENT_BYTES or piece_bytes % 4:
            raise ValueError(f"fragment_bytes must be a multiple of 4 between {MIN_FRAGMENT_BYTES} and "
                             f"{MAX_FRAGMENT_BYTES}, found {piece_bytes}")
        if len(message.payload) > MAX_TOTAL_BYTES:
            raise ValueError(f"a request has at most {MAX_TOTAL_BYTES} bytes, found {len(message.payload)}")
        started = time.monotonic()
        if started >= self.token_renew_s:
            self.hello(min(timeout_s, _NEIGHBOUR_S))
        self.send_pieces(message)
        return self.wait(message, timeout_s, started=started)

    def wait(self, message: Message, timeout_s=10.0, retransmit=True, started: float | None = None) -> Answer:
        """Waits for the answer to a request, some pieces of which have been sent, since `started` (default: now).
        retransmit=False: only listens. Raises Refused or Lost."""
        started = time.monotonic() if started is None else started
        deadline = started + timeout_s
        request = message.header
        rto, gap, silent, token = self.first_rto_s(), max(self.gap_s, self.round_trip_s / 4), 0, self.token
        refusals = 0  # for want of a valid token
        hello_id: int | None = None  # of a hello that is not answered yet
        known = False  # the server has said that it has the request, or parts of it
        named = 0.0  # the wait that `busy` asks for
        wrong_tags = self.wrong_tags
        answer = Answer()
        hint: Datagram | None = None
        parts: dict[int, bytes] = {}
        response: Header | None = None
        newest = Newest()
        heard = time.monotonic()  # the last time that the wait began again

        while True:
            patience = (gap if response else max(rto, named)) if retransmit else timeout_s
            left = min(heard + patience, deadline) - time.monotonic()
            datagram = self.receive_for(request.request_id, left, hello_id) if left > 0 else None
            if datagram is None:
                heard = time.monotonic()
                silent += 1
                refusals = max(refusals - 1, 0)
                given_up = retransmit and silent > self.max_silent_tries
                if deadline <= time.monotonic() or given_up:
                    if hint is not None:
                        raise Refused(hint)
                    raise Lost(f"request {request.request_id:#x}: {len(parts)} pieces of a response after "
                               f"{time.monotonic() - started:.3f} s and {answer.tries} tries; "
                               + self._why_silent(answer.busy, response, wrong_tags))  # fmt: skip
                if not retransmit:
                    continue
                if hello_id is not None:
                    self.send_hello(hello_id)
                if response and silent % 2 == 1:
                    self._ask_for_missing(message, response, parts)
                    answer.resends_asked += 1
                else:  # a server that has forgotten the response runs the request again
                    self.send_raw(message.piece(0, flags=request.flags | RETRY))
                    answer.tries += 1
                rto, named = min(rto * 2, self.max_rto_s), 0.0
                if response:
                    gap = max(min(gap * 2, self.max_rto_s), self.round_trip_s + max(self.gap_s, 2 * self.round_trip_s))
                continue

            h = datagram.header
            if is_hint(datagram) and self.auth != "none":
                hint = datagram
                continue
            if h.type == TOKEN:
                hello_id = None
                self._keep_token(h)
                if self.token != token:  # else the server refused the token for another address only
                    token, refusals, heard = self.token, refusals + 1, time.monotonic()
                    self._send_again(message, refusals, known)
                continue
            is_newest = newest.advance(h.sequence)
            if h.type == RESPONSE:  # its pieces may come in any order; those of an earlier run do not count
                if not is_newest and response is not None and _message(response) != _message(h):
                    continue
                if h.offset in parts and response is not None and _message(response) == _message(h):
                    continue
            elif not is_newest:
                continue
            if h.type == STATUS and h.status == STATUSES.index("token_required") and retransmit:
                hint = datagram
                if h.token in (0, token):  # it refuses an earlier send
                    continue
                # Its token may be for the address of an attacker who has sent a captured datagram: a hello asks. Only
                # if the token of the last hello was refused, too, somebody else may have answered that.
                if refusals % 2 == 0:
                    if hello_id is None:
                        hello_id = self.send_hello()
                    continue
                token = self.token = h.token
                refusals, heard = refusals + 1, time.monotonic()
                self._send_again(message, refusals, known)
                continue
            heard, silent = time.monotonic(), 0
            if h.type == RESPONSE:
                if response is None or _message(response) != _message(h):
                    response, parts = h, {}
                parts[h.offset] = datagram.payload
                if sum(map(len, parts.values())) < h.total_bytes:
                    continue
                if len(parts) > 1 and not request.flags & NO_CACHE:
                    self.send_ack(message)
                answer.payload = b"".join(parts[at] for at in sorted(parts))
                answer.result_kind = RESULT_KINDS[h.result_kind]
                answer.rows, answer.server_us, answer.pieces = h.aux, h.budget_us, len(parts)
                answer.model_version = h.status if h.flags & MODEL_VERSION else None
                answer.latency_s = time.monotonic() - started
                if answer.tries == 1:
                    self._learn(answer.latency_s)
                return answer
            if h.type == RESEND:
                known = True
                answer.resends_served += self._serve_resend(message, datagram)
            elif h.type == BUSY:
                known = True
                answer.busy += 1
                named = h.budget_us / 1e6
            elif h.type == STATUS:
                raise Refused(datagram)

    def _send_again(self, message: Message, refusals: int, known: bool):
        """Sends a request whose token was refused with a new one. A server that has parts of it asks for the rest."""
        if refusals <= 4:  # then only after silence: two servers may refuse each other's tokens
            self.send_pieces(message, [0] if known else None)

    def _why_silent(self, busy: int, response: Header | None, wrong_tags: int) -> str:
        """Why a request got no complete answer; wrong_tags: the count before it."""
        if self.unreachable:
            return why_unreachable(self.unreachable, self.address, self.port)
        if response:
            return "the other pieces were lost: the network loses datagrams, or the server has stopped"
        if busy:
            return (f"the server has the request, and answered {busy} times that it has no result yet (busy): allow "
                    "more time")  # fmt: skip
        if self.refusals:
            return f"nobody listens at {self.address} port {self.port} any more"
        if self.wrong_tags > wrong_tags:
            return "answers had a wrong tag: the key differs from the server's"
        return "a server does not answer strangers: check tenant id, key, epoch and auth"

    def first_rto_s(self) -> float:
        """The wait before the first repeat."""
        return max(self.rto_s, min(self.latency_s + max(self.rto_s, 4 * self.deviation_s), self.max_rto_s))

    def _learn(self, latency_s: float):
        if self.latency_s == 0:
            self.latency_s, self.deviation_s = latency_s, latency_s / 2
        self.deviation_s = (3 * self.deviation_s + abs(latency_s - self.latency_s)) / 4
        self.latency_s = (7 * self.latency_s + latency_s) / 8

    def _ask_for_missing(self, message: Message, response: Header, parts):
        total, fragment = response.total_bytes, response.fragment_bytes
        missing = [at for at in offsets(total, fragment) if at not in parts]
        ranges = [(at, min(fragment, total - at)) for at in missing]
        self.send_resend(message, ranges[: min(MAX_RANGES, fragment // 8)], total, fragment)

    def _serve_resend(self, message: Message, datagram: Datagram) -> int:
        h, request = datagram.header, message.header
        of_request = not h.flags & OF_RESPONSE
        if not of_request or _geometry(h) != _geometry(request):
            return 0
        try:
            ranges = parse_ranges(datagram.payload, h.total_bytes)
        except Malformed:
            return 0
        for offset, size in ranges:
            first = offset - offset % request.fragment_bytes
            for at in range(first, offset + size, request.fragment_bytes):
                self.send_raw(message.piece(at, flags=request.flags | RETRY))
        return 1

    def hello(self, timeout_s=_NEIGHBOUR_S) -> int:
        """Asks for an address token, keeps it for later requests, and returns it."""
        self._keep_token(self._exchange(HELLO, TOKEN, b"", timeout_s).header)
        return self.token

    def send_hello(self, hello_id: int | None = None) -> int:
        """Asks for an address token without waiting for it; again, if `hello_id` is that of a hello. Returns the id."""
        hello_id = int.from_bytes(os.urandom(8), "little") if hello_id is None else hello_id
        self.send_raw(build(Header(type=HELLO, tenant_id=self.tenant_id, session=self.session, request_id=hello_id)))
        return hello_id

    def _keep_token(self, answer: Header):
        self.token = answer.token
        self.token_renew_s = time.monotonic() + (answer.budget_us / 2e6 or 15)  # at half its life

    def ping(self, payload: bytes = b"ping", timeout_s=2.0) -> float:
        """The round trip in seconds."""
        started = time.monotonic()
        if self._exchange(PING, PONG, payload, timeout_s).payload != payload:
            raise Malformed("pong with another payload")
        return time.monotonic() - started

    def _exchange(self, type: int, expected: int, payload: bytes, timeout_s: float) -> Datagram:
        request_id = int.from_bytes(os.urandom(8), "little")
        header = Header(type=type, tenant_id=self.tenant_id, session=self.session,
                        request_id=request_id, total_bytes=len(payload))  # fmt: skip
        deadline = time.monotonic() + timeout_s
        rto = self.rto_s
        self.refusals, self.unreachable = 0, None
        while (left := deadline - time.monotonic()) > 0:
            self.send_raw(build(header, payload))
            sent = time.monotonic()
            answer = self.receive_for(request_id, min(rto, left))
            if answer is not None and answer.header.type == expected:
                if rto == self.rto_s:
                    self.round_trip_s = time.monotonic() - sent
                return answer
            # One may be late, of an earlier process at that port.
            if self.refusals > 1:
                raise Lost(why_unreachable(ConnectionRefusedError(errno.ECONNREFUSED, ""), self.address, self.port))
            if self.unreachable:
                raise Lost(why_unreachable(self.unreachable, self.address, self.port))
            rto = min(rto * 2, self.max_rto_s)
        raise Lost(f"no {TYPES[expected]} from {self.address} port {self.port} in {timeout_s} s: does the server run "
                   "there?")  # fmt: skip


def _geometry(header: Header) -> tuple:
    return header.total_bytes, header.fragment_bytes


def _message(response: Header) -> tuple:
    """The fields that all pieces of a run's response have in common; status is the model's version."""
    return *_geometry(response), response.result_kind, response.flags, response.status, response.token


def is_hint(datagram: Datagram) -> bool:
    """A refusal without a tag. Anybody who sees the request can forge it."""
    h = datagram.header
    return h.type == STATUS and h.auth == NONE and h.status < len(STATUSES) and STATUSES[h.status] in UNTAGGED_STATUSES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Asks an itif appliance about a text.")
    parser.add_argument("server", metavar="HOST[:PORT]")
    parser.add_argument("tenant_id", type=int, metavar="TENANT-ID")
    parser.add_argument("key", metavar="KEY", help="32 hexadecimal digits, as itifctl tenant add prints them")
    parser.add_argument("text")
    parser.add_argument("--epoch", type=int, default=1, help="of the key [1]")
    parser.add_argument("--auth", choices=AUTHS, default="full", help="as the tenant's [full]")
    parser.add_argument("--result", choices=RESULT_KINDS, default="default", help="[the model's default]")
    options = parser.parse_args(arguments)
    try:
        with Client(*parse_server(options.server), options.tenant_id, bytes.fromhex(options.key), options.epoch,
                    options.auth) as client:  # fmt: skip
            answer = client.infer_text(options.text, result_kind=options.result)
    except (Lost, Refused, OSError, ValueError) as error:
        print(f"itif_client: {error}", file=sys.stderr)
        return 1
    value = answer.value()
    if answer.result_kind == "classes":
        value = "\n".join(f"{100 * entry.probability:5.1f} %  {entry.name}" for entry in value)
    print(value)
    return 0


if __name__ == "__main__":
    sys.exit(main())
