"""A client of the itif wire protocol, version 1, written from docs/protocol.md only.

Pure Python 3.11, standard library only. infer_text() and infer_tokens() follow the protocol. Tests of wrong
behaviour use message(), send_pieces(), send_raw() and wait().

    client = Client("198.18.0.1", 9009, tenant_id=1, key=bytes.fromhex("…"), epoch=1)
    answer = client.infer_text("a fine day")      # Answer, or raises Refused or Lost
    answer.value()                                # lists of floats, or classes

    message = client.tokens(range(2000))          # send the second piece twice, the first last
    client.send_pieces(message, [1, 1, 2, 0])
    answer = client.wait(message)
"""

from __future__ import annotations

import os
import socket
import struct
import time
from dataclasses import dataclass, field

from itif_format import *  # noqa: F403: tests import all names from here
from itif_format import (
    ACK, AUTHS, BUSY, DEFAULT_FRAGMENT_BYTES, DEFAULT_PORT, HELLO, MAX_RANGES, MODEL_VERSION, NO_CACHE,
    OF_RESPONSE, PAYLOAD_KINDS, PING, PONG, REQUEST, RESEND, RESPONSE, RESULT_KINDS, RETRY, STATUS, STATUSES,
    TOKEN, TYPES, Datagram, Header, Malformed, build, build_ranges, decode_classes, offsets, parse,
    parse_ranges,
)  # fmt: skip

# Statuses without a tag, because client and server share no key (section 7).
UNTAGGED_STATUSES = {"unknown_tenant", "bad_tag", "bad_epoch"}


class Refused(Exception):
    """The server ended the request with a status."""

    def __init__(self, datagram: Datagram):
        h = datagram.header
        self.code = h.status
        self.status = STATUSES[h.status] if h.status < len(STATUSES) else f"code {h.status}"
        self.detail = datagram.payload.decode("utf-8", "replace")
        self.retry_after_us = h.aux
        self.tagged = h.auth != 0
        super().__init__(f"{self.status}: {self.detail}" if self.detail else self.status)


class Lost(Exception):
    """No complete answer arrived in time."""


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


@dataclass
class Message:
    """A request that has not been sent yet."""

    header: Header  # of every piece, except offset and payload_bytes
    payload: bytes
    key: bytes

    def offsets(self) -> list[int]:
        return offsets(len(self.payload), self.header.fragment_bytes)

    def piece(self, offset: int, **changes) -> bytes:
        """The datagram of one piece. `changes` replace header fields before the tag is made."""
        header = self.header.replaced(offset=offset, **changes)
        end = offset + self.header.fragment_bytes
        return build(header, self.payload[offset:end], self.key)

    def pieces(self, **changes) -> list[bytes]:
        return [self.piece(offset, **changes) for offset in self.offsets()]

    def about(self, type: int, **fields) -> Header:
        """The header of another datagram about this request."""
        h = self.header
        return Header(type=type, auth=h.auth, tenant_id=h.tenant_id, session=h.session,
                      request_id=h.request_id, key_epoch=h.key_epoch, **fields)  # fmt: skip


@dataclass
class Client:
    address: str
    port: int = DEFAULT_PORT
    tenant_id: int = 0
    key: bytes = bytes(16)
    epoch: int = 1
    auth: str = "header"
    fragment_bytes: int = DEFAULT_FRAGMENT_BYTES
    session: int = field(default_factory=lambda: int.from_bytes(os.urandom(4), "little"))
    rto_s: float = 0.05
    max_rto_s: float = 1.0
    max_silent_tries: int = 5
    gap_s: float = 0.005
    token: int = 0
    local: tuple[str, int] | None = None  # address and port to send from

    def __post_init__(self):
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if family == socket.AF_INET:
            # Don't Fragment: IP_MTU_DISCOVER = 10, IP_PMTUDISC_DO = 2 (Linux; not in `socket`).
            self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)
        if self.local:
            self.socket.bind(self.local)
        self.socket.connect(socket.getaddrinfo(self.address, self.port, family)[0][4])
        self.next_request_id = int.from_bytes(os.urandom(8), "little") >> 1
        self.received: list[bytes] = []  # every datagram received, for tests

    def close(self):
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_):
        self.close()

    # Datagrams.

    def send_raw(self, data: bytes):
        """Sends bytes unchanged. Ignores errors of a server that does not listen (yet); timers handle that."""
        try:
            self.socket.send(data)
        except ConnectionRefusedError:
            pass

    def receive_raw(self, timeout_s: float) -> bytes | None:
        deadline = time.monotonic() + timeout_s
        while True:
            self.socket.settimeout(max(deadline - time.monotonic(), 1e-6))
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, BlockingIOError):
                return None
            except ConnectionRefusedError:
                if time.monotonic() >= deadline:
                    return None
                continue
            self.received.append(data)
            return data

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

    def receive_for(self, request_id: int, timeout_s: float) -> Datagram | None:
        """The next datagram about a request that passes authentic()."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if (datagram := self.receive(left)) is None:
                return None
            h = datagram.header
            about = (h.tenant_id, h.session, h.request_id)
            if about == (self.tenant_id, self.session, request_id) and self.authentic(datagram):
                return datagram
        return None

    def authentic(self, datagram: Datagram) -> bool:
        h = datagram.header
        if h.type in (TOKEN, PONG):
            return True
        if h.type == STATUS and h.auth == 0 and h.status < len(STATUSES):
            if STATUSES[h.status] in UNTAGGED_STATUSES:
                return True
        return h.auth >= AUTHS.index(self.auth) and (h.auth == 0 or datagram.tag_valid(self.key))

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
            fragment_bytes=fragment_bytes or self.fragment_bytes, aux=self.token,
        )  # fmt: skip
        return Message(header, payload, self.key)

    def tokens(self, ids, dtype: str = "u16", **options) -> Message:
        code = {"u16": "H", "u32": "I"}[dtype]
        return self.message(f"tokens_{dtype}", struct.pack(f"<{len(ids)}{code}", *ids), **options)

    def text(self, text: str, pair: str | None = None, **options) -> Message:
        whole = text if pair is None else text + "\0" + pair
        return self.message("text", whole.encode("utf-8"), **options)

    # Sending them.

    def send_pieces(self, message: Message, order: list[int] | None = None, **changes):
        """Sends the pieces with the indices in `order`, which may repeat or omit some. None: all, in order."""
        pieces = message.pieces(**changes)
        for index in range(len(pieces)) if order is None else order:
            self.send_raw(pieces[index])

    def send_resend(self, message: Message, ranges, total_bytes: int, fragment_bytes: int):
        """Asks for parts of the response."""
        header = message.about(RESEND, flags=OF_RESPONSE, total_bytes=total_bytes,
                               fragment_bytes=fragment_bytes, aux=self.token)  # fmt: skip
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
        self.send_pieces(message)
        return self.wait(message, timeout_s)

    def wait(self, message: Message, timeout_s=10.0, retransmit=True) -> Answer:
        """Waits for the answer to a request, some pieces of which have been sent. retransmit=False: only
        listens. Raises Refused or Lost."""
        started = time.monotonic()
        deadline = started + timeout_s
        request = message.header
        rto, gap, silent = self.rto_s, self.gap_s, 0
        answer = Answer()
        parts: dict[int, bytes] = {}
        response: Header | None = None

        while True:
            left = deadline - time.monotonic()
            patience = (gap if response else rto) if retransmit else left
            datagram = self.receive_for(request.request_id, min(patience, left))
            if datagram is None:
                silent += 1
                given_up = retransmit and silent > self.max_silent_tries
                if deadline <= time.monotonic() or given_up:
                    raise Lost(f"request {request.request_id:#x}: {len(parts)} pieces of a response "
                               f"after {time.monotonic() - started:.3f} s")  # fmt: skip
                if not retransmit:
                    continue
                if response:
                    self._ask_for_missing(message, response, parts)
                    answer.resends_asked += 1
                    gap = min(gap * 2, self.max_rto_s)
                else:
                    self.send_raw(message.piece(0, flags=request.flags | RETRY))
                    answer.tries += 1
                    rto = min(rto * 2, self.max_rto_s)
                continue

            h = datagram.header
            silent = 0
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
                return answer
            if h.type == RESEND:
                answer.resends_served += self._serve_resend(message, datagram)
            elif h.type == BUSY:
                answer.busy += 1
            elif h.type == STATUS:
                if h.status != STATUSES.index("token_required") or not retransmit:
                    raise Refused(datagram)
                self.hello()
                request.aux = self.token
                self.send_pieces(message)

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
        for offset, size in parse_ranges(datagram.payload, h.total_bytes):
            first = offset - offset % request.fragment_bytes
            for at in range(first, offset + size, request.fragment_bytes):
                self.send_raw(message.piece(at, flags=request.flags | RETRY))
        return 1

    def hello(self, timeout_s=2.0) -> int:
        """Asks for an address token, keeps it for later requests, and returns it."""
        self.token = self._exchange(HELLO, TOKEN, b"", timeout_s).header.aux
        return self.token

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
        while (left := deadline - time.monotonic()) > 0:
            self.send_raw(build(header, payload))
            answer = self.receive_for(request_id, min(rto, left))
            if answer is not None and answer.header.type == expected:
                return answer
            rto = min(rto * 2, self.max_rto_s)
        raise Lost(f"no {TYPES[expected]} in {timeout_s} s")


def _geometry(header: Header) -> tuple:
    return header.total_bytes, header.fragment_bytes


def _message(response: Header) -> tuple:
    """The fields that all pieces of a response have in common; status is the model's version."""
    return *_geometry(response), response.result_kind, response.flags, response.status
