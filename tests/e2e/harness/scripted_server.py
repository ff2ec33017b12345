"""A server on the loopback that answers as a script says, for tests of the Python client."""

import itertools
import socket
import struct
import threading

import itif_client as wire

from .clients import wait_until

# Times of the client. Most tests need no silence, and a slow machine must cause no repeat.
PATIENT = {"rto_s": 5.0, "max_rto_s": 5.0, "gap_s": 5.0}
ONE_SILENCE = {"rto_s": 0.5, "max_rto_s": 0.5, "gap_s": 0.5}  # a repeat is part of the sequence
QUICK = {"rto_s": 0.1, "max_rto_s": 0.2, "gap_s": 0.1}  # one repeat more changes nothing
KEY = bytes(range(16))
TOKEN = 0xABCD_0123_4567_89EF


class Server:
    """Answers hellos, and the n-th other well-formed datagram with the list of datagrams that script(n, datagram)
    returns."""

    def __init__(self, script):
        self.script = script
        self.seen: list[wire.Datagram] = []
        self.numbers: set[int] = set()
        self.hellos = 0
        self.answers_hello = True
        self.token = TOKEN
        self.failure = None
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            data, peer = self.socket.recvfrom(65536)
            if data == b"stop":
                return
            try:
                datagram = wire.parse(data)
                assert datagram.header.auth == 0 or datagram.open(KEY)
                h = datagram.header
                if h.type == wire.HELLO and self.answers_hello:
                    self.hellos += 1
                    answer_ = answer(datagram, wire.TOKEN, token=self.token, budget_us=30_000_000)
                    self.socket.sendto(answer_, peer)
                    continue
                if h.type not in (wire.HELLO, wire.PING):
                    assert h.sequence not in self.numbers, "a sequence number was used twice"
                    self.numbers.add(h.sequence)
                self.seen.append(datagram)
                for answer_ in self.script(len(self.seen), datagram) or []:
                    self.socket.sendto(answer_, peer)
            except Exception as failure:  # shown by the fixture
                self.failure = failure

    def stop(self):
        self.socket.sendto(b"stop", self.socket.getsockname())
        self.thread.join()
        self.socket.close()


sequences = itertools.count(1)


def answer(to: wire.Datagram, type, payload=b"", key=KEY, auth=None, **fields) -> bytes:
    h = to.header
    auth = h.auth if auth is None else auth
    header = wire.Header(type=type, auth=auth, tenant_id=h.tenant_id, session=h.session,
                         request_id=h.request_id, key_epoch=h.key_epoch if auth else 0, **fields)  # fmt: skip
    if type not in (wire.TOKEN, wire.PONG):
        header.sequence = next(sequences)
    if type in (wire.STATUS, wire.PONG):
        header.total_bytes = len(payload)
    return wire.build(header, payload, key)


def response(to: wire.Datagram, values, fragment=64, **options) -> list[bytes]:
    payload = struct.pack(f"<{len(values)}f", *values)
    return [
        answer(to, wire.RESPONSE, payload[at : at + fragment], total_bytes=len(payload), offset=at,
               fragment_bytes=fragment, result_kind=3, aux=1, budget_us=1234, **options)
        for at in wire.offsets(len(payload), fragment)
    ]  # fmt: skip


def wait_seen(server, number):
    """Waits until the server has read this many datagrams, and no more."""
    wait_until(lambda: len(server.seen) >= number, lambda: f"{len(server.seen)} datagrams")
    assert len(server.seen) == number


def types(server) -> list[str]:
    return [wire.TYPES[d.header.type] for d in server.seen]
