"""Sends only the first pieces of requests, which never complete.

usage: half_sender.py SERVER TENANT_JSON PER_SECOND
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))

from itif_client import Client  # noqa: E402


def main(server, tenant_path, per_second):
    added = json.loads(Path(tenant_path).read_text(encoding="utf-8"))
    tenant = added["tenant"]
    client = Client(server, tenant_id=tenant["id"], key=bytes.fromhex(added["key"]), epoch=tenant["key_epoch"],
                    auth=tenant["auth"], fragment_bytes=64)
    client.hello()
    client.socket.setblocking(False)
    interval = 10 / int(per_second)
    due = time.monotonic()
    while True:
        for _ in range(10):
            try:
                client.send_pieces(client.tokens(range(1000, 1100)), [0])
            except BlockingIOError:
                pass
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(*sys.argv[1:])
