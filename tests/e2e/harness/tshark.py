"""tshark with the dissector docs/examples/itif.lua, on datagrams or on a capture."""

import os
import subprocess
from pathlib import Path

from .captures import write_pcap
from .frames import CLIENT_IPV4, ETH_IPV4, SERVER_IPV4, UDP, ipv4, udp

SCRIPT = Path(__file__).parents[3] / "docs" / "examples" / "itif.lua"
CLIENT_PORT, SERVER_PORT = 40000, 9009
INFO, MESSAGES = "_ws.col.Info", "_ws.expert.message"
SEPARATOR, AGGREGATOR = "\t", "\x1f"


def frame(datagram, from_server=False, server_port=SERVER_PORT):
    """The Ethernet frame of a datagram between client and server."""
    ends = [(CLIENT_IPV4, CLIENT_PORT), (SERVER_IPV4, server_port)]
    (source, source_port), (target, target_port) = ends[::-1] if from_server else ends
    packet = ipv4(udp(datagram, source_port, target_port), UDP, source, target)
    return bytes(12) + ETH_IPV4.to_bytes(2, "big") + packet


def tshark(directory, *arguments):
    """The output of tshark with the dissector and without the user's configuration."""
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(directory), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(("tshark", *map(str, arguments), "-X", f"lua_script:{SCRIPT}"), env=environment, text=True,
                          capture_output=True, timeout=60, check=False)  # fmt: skip
    # An error in the script is no error of tshark.
    assert done.returncode == 0 and "Lua" not in done.stderr, done.stderr
    return done.stdout


def dissect(directory, capture, fields, *options):
    """For each frame {field: [values as text]}, in two passes, so that links to later frames are known. `capture` is
    a file, or frames."""
    if not isinstance(capture, (str, Path)):
        path = directory / "capture.pcap"
        write_pcap(path, capture)
        capture = path
    fields = [*fields, INFO, MESSAGES]
    output = tshark(directory, "-2", "-r", capture, "-T", "fields", "-E", f"separator={SEPARATOR}",
                    "-E", f"aggregator={AGGREGATOR}", *options, *(part for each in fields for part in ("-e", each)))
    rows = [dict(zip(fields, (text.split(AGGREGATOR) if text else [] for text in line.split(SEPARATOR)), strict=True))
            for line in output.splitlines()]
    for row in rows:
        assert not any("Lua Error" in text for text in row[MESSAGES]), row
    return rows
