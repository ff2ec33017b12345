"""Hand-made Ethernet frames that a socket would not send."""

import contextlib
import socket
import struct
import time

from .namespaces import CLIENT_IPV4, SERVER_IPV4

ICMP, TCP, UDP = 1, 6, 17
ETH_P_ALL = 3
ETH_IPV4, ETH_ARP, ETH_IPV6 = 0x0800, 0x0806, 0x86DD
SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 263, 8, 0x10


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ipv4(payload, protocol, source=CLIENT_IPV4, target=SERVER_IPV4, fragment=0x4000, header_checksum=None,
         total=None):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload) if total is None else total, 1, fragment,
                       64, protocol, 0, socket.inet_aton(source), socket.inet_aton(target))
    value = checksum(head) if header_checksum is None else header_checksum
    return head[:10] + struct.pack(">H", value) + head[12:] + payload


def udp(payload, source_port=4000, target_port=9009, value=None, length=None):
    """A UDP datagram with the checksum `value`, by default the right one for client and server."""
    length = 8 + len(payload) if length is None else length
    datagram = struct.pack(">HHHH", source_port, target_port, length, 0) + payload
    if value is None:
        pseudo = (socket.inet_aton(CLIENT_IPV4) + socket.inet_aton(SERVER_IPV4) +
                  struct.pack(">BBH", 0, UDP, 8 + len(payload)))
        value = checksum(pseudo + datagram) or 0xFFFF
    return datagram[:6] + struct.pack(">H", value) + datagram[8:]


def icmp_echo(payload, kind=8):
    head = struct.pack(">BBHHH", kind, 0, 0, 7, 1)
    return head[:2] + struct.pack(">H", checksum(head + payload)) + head[4:] + payload


def mac_bytes(text):
    return bytes.fromhex(text.strip().replace(":", ""))


class Wire:
    """A raw socket on the clients' link."""

    def __init__(self, namespaces, server_mac):
        self.own = mac_bytes(namespaces.in_client("cat", f"/sys/class/net/{namespaces.client_link}/address"))
        self.server = mac_bytes(server_mac)
        self.raw = namespaces.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.raw.bind((namespaces.client_link, ETH_P_ALL))
        self.raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)  # the kernel strips VLAN tags

    def close(self):
        self.raw.close()

    def send(self, packet, tag=b"", ether_type=0x0800, target=None):
        self.raw.send((target or self.server) + self.own + tag + struct.pack(">H", ether_type) + packet)

    def receive(self, mark, timeout_s=0.5):
        """The next frame to us that contains `mark`, as (VLAN or 0, frame); None if there is none."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            self.raw.settimeout(left)
            try:
                frame, ancillary, _, _ = self.raw.recvmsg(4096, 256)
            except TimeoutError:
                return None
            if mark in frame and frame[:6] == self.own:
                # struct tpacket_auxdata
                status, tci = struct.unpack("<I12xH", ancillary[0][2][:18])
                return (tci & 0xFFF if status & TP_STATUS_VLAN_VALID else 0), frame
        return None


@contextlib.contextmanager
def wire_to(appliance):
    mac = appliance.ctl_json("health")["appliance"]["ports"][0]["mac"]
    made = Wire(appliance.namespaces, mac)
    try:
        yield made
    finally:
        made.close()
