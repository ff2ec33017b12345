"""Capture files: writes pcap for net_pcap, reads pcap and pcapng, and parses the UDP datagrams in them."""

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from .frames import ETH_IPV4, UDP, checksum

PCAP_MAGIC, PCAP_MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
SECTION_HEADER, ENHANCED_PACKET = 0x0A0D0D0A, 6
LINKTYPE_ETHERNET = 1


def write_pcap(path, frames):
    """Writes frames with timestamps one microsecond apart."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", PCAP_MAGIC, 2, 4, 0, 0, 65535, LINKTYPE_ETHERNET))
        for at, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 0, at, len(frame), len(frame)) + frame)


def read_frames(path):
    """All complete frames of a pcap or pcapng file. A frame that is still being written is left out."""
    data = Path(path).read_bytes()
    if len(data) < 4:
        return []
    magic = struct.unpack_from("<I", data)[0]
    if magic == SECTION_HEADER:
        return list(_pcapng(data))
    assert magic in (PCAP_MAGIC, PCAP_MAGIC_NS), f"{path}: neither pcap nor pcapng: {magic:#x}"
    return list(_pcap(data))


def _pcap(data):
    at = 24
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        at += 16
        if at + size > len(data):
            return
        yield data[at:at + size]
        at += size


def _pcapng(data):
    at = 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert size >= 12 and size % 4 == 0, f"block of {size} bytes at {at}"
        if at + size > len(data):
            return
        if kind == ENHANCED_PACKET:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28:at + 28 + captured]
        at += size


@dataclass
class Udp:
    """A UDP datagram of a frame."""

    source: tuple
    target: tuple
    payload: bytes
    # IPv4's and UDP's. On a veth the kernel leaves UDP checksums of local senders incomplete.
    checksums_hold: bool


def udp_of(frame):
    """The IPv4 UDP datagram in an untagged frame, or None."""
    if len(frame) < 42 or frame[12:14] != struct.pack(">H", ETH_IPV4) or frame[23] != UDP:
        return None
    ip_bytes = (frame[14] & 15) * 4
    total = struct.unpack(">H", frame[16:18])[0]
    ip, datagram = frame[14:14 + ip_bytes], frame[14 + ip_bytes:14 + total]
    source_port, target_port, size, value = struct.unpack(">HHHH", datagram[:8])
    assert size == len(datagram), f"UDP length {size} in {len(datagram)} bytes"
    pseudo = ip[12:20] + struct.pack(">BBH", 0, UDP, size)
    holds = checksum(ip) == 0 and (value == 0 or checksum(pseudo + datagram) == 0)
    return Udp((socket.inet_ntoa(ip[12:16]), source_port), (socket.inet_ntoa(ip[16:20]), target_port),
               datagram[8:], holds)
