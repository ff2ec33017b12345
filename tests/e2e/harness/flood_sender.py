"""Sends datagrams of one kind without waiting, as fast as it can, until it is interrupted. Then it prints how many it
sent. Python makes no tags at such rates: the tenant's `auth` is `none`.

usage: flood_sender.py SERVER TENANT_JSON KIND [PER_SECOND [aside]]

  junk      random bytes, half of them behind the first four bytes of a request
  half      first pieces of requests, which never complete
  resends   repeats of one answered request, and `resend` about its answer

PER_SECOND 0 sets no limit. With `aside`, the datagrams go to a local socket that nobody reads: the sender takes the
same CPU time, and the server gets none of them.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))

from itif_client import OF_RESPONSE, RESEND, RESPONSE, Client, build, build_ranges  # noqa: E402

BURST = 32
IDS = [101, *range(1000, 1098), 102]


def junk(client):
    pieces = [b"" if i % 2 else client.tokens(IDS).piece(0)[:4] for i in range(BURST)]
    while True:
        yield from (start + os.urandom(96) for start in pieces)


def half(client):
    while True:
        yield client.tokens(IDS).piece(0)


def resends(client):
    message = client.tokens(IDS, result_kind="logits")
    client.send_pieces(message)
    while (answer := client.receive_for(message.header.request_id, 10).header).type != RESPONSE:
        client.send_pieces(message)  # busy, or the server misses a piece
    about = {"total_bytes": answer.total_bytes, "fragment_bytes": answer.fragment_bytes}
    ranges = build_ranges([(0, answer.total_bytes)])
    while True:
        yield from message.pieces()
        yield build(message.about(RESEND, flags=OF_RESPONSE, **about), ranges)


def unread_socket():
    """A socket whose datagrams the kernel drops, once the first have filled the buffer of the other end."""
    unread = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    unread.bind(("127.0.0.1", 0))
    unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(unread.getsockname())
    return sender, unread


def main(server, tenant_path, kind, per_second="0", aside=""):
    added = json.loads(Path(tenant_path).read_text(encoding="utf-8"))
    tenant = added["tenant"]
    if tenant["auth"] != "none":
        sys.exit("flood_sender.py: the tenant's auth must be none")
    client = Client(server, tenant_id=tenant["id"], key=bytes.fromhex(added["key"]), epoch=tenant["key_epoch"],
                    auth="none", fragment_bytes=64)
    client.hello()
    sent = 0

    def end(*_):
        print(json.dumps({"sent": sent, "seconds": time.monotonic() - started}))
        sys.stdout.flush()
        os._exit(0)

    datagrams = {"junk": junk, "half": half, "resends": resends}[kind](client)
    first = next(datagrams)
    client.socket.setblocking(False)
    started = due = time.monotonic()
    signal.signal(signal.SIGTERM, end)
    client.send_raw(first)
    output, _unread = unread_socket() if aside else (client.socket, None)
    output.setblocking(False)
    while True:
        for _ in range(BURST):
            try:
                output.send(next(datagrams))
                sent += 1
            except (BlockingIOError, ConnectionRefusedError):
                pass
        if time.monotonic() >= client.token_renew_s:
            client.socket.setblocking(True)
            client.hello()
            client.socket.setblocking(False)
        if int(per_second):
            due += BURST / int(per_second)
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(*sys.argv[1:])
