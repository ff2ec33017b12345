"""Two network namespaces joined by a veth, as tools/lib/namespaces.sh makes them.

Tests run outside of the namespaces, but their sockets belong to the clients' namespace: a socket belongs to the
namespace in which it is created, so `socket()` enters it for that moment.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from .impaired_link import Impairments

CLONE_NEWNET = 0x40000000
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
SERVER_IPV4, CLIENT_IPV4 = "198.18.0.1", "198.18.0.2"
SERVER_IPV6, CLIENT_IPV6 = "fd00:18::1", "fd00:18::2"

_libc = ctypes.CDLL(None, use_errno=True)


def run(*command, **options):
    """Runs a command that must succeed, and returns its output."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=options.pop("timeout", 60), **options)
    assert result.returncode == 0, f"{' '.join(command)}: {result.returncode}\n{result.stdout}"
    return result.stdout


def _enter(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        if _libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(fd)


class Namespaces:
    def __init__(self, tag):
        self.server, self.client = f"itif-srv-{tag}", f"itif-cli-{tag}"
        self.server_link, self.client_link = f"is{tag}", f"ic{tag}"

    def make(self):
        run("ip", "netns", "add", self.server)
        run("ip", "netns", "add", self.client)
        self._join()
        run("ip", "netns", "exec", self.server, "sysctl", "-qw",
            f"net.ipv6.conf.{self.server_link}.disable_ipv6=1")
        run("ip", "-n", self.server, "link", "set", self.server_link, "up")
        run("ip", "-n", self.client, "link", "set", "lo", "up")
        run("ip", "-n", self.client, "addr", "add", f"{CLIENT_IPV4}/24", "dev", self.client_link)
        run("ip", "-n", self.client, "addr", "add", f"{CLIENT_IPV6}/64", "dev", self.client_link,
            "nodad")
        run("ip", "-n", self.client, "link", "set", self.client_link, "up")

    def _join(self):
        run("ip", "link", "add", self.server_link, "netns", self.server, "type", "veth",
            "peer", "name", self.client_link, "netns", self.client)

    def remove(self):
        for name in (self.client, self.server):
            subprocess.run(("ip", "netns", "del", name), stderr=subprocess.DEVNULL, check=False)

    def inside_client(self):
        """Moves this thread into the clients' namespace for the block."""
        return self.inside(self.client)

    @contextlib.contextmanager
    def inside(self, name):
        back = f"/proc/self/task/{_libc.gettid()}/ns/net"
        home = os.open(back, os.O_RDONLY)
        try:
            _enter(f"/var/run/netns/{name}")
            yield
        finally:
            _libc.setns(home, CLONE_NEWNET)
            os.close(home)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_DGRAM, protocol=0):
        with self.inside_client():
            return socket.socket(family, kind, protocol)

    def in_client(self, *command, **options):
        return run("ip", "netns", "exec", self.client, *command, **options)


class ImpairedNamespaces(Namespaces):
    """As Namespaces, but without IPv6, and with a third one between them, in which `impaired_link.py` forwards the
    frames."""

    def __init__(self, tag):
        super().__init__(tag)
        self.middle = f"itif-mid-{tag}"
        self.link = None

    def make(self):
        run("ip", "netns", "add", self.middle)
        super().make()
        # IPv6 would send frames of its own at any time.
        for namespace, name in ((self.client, self.client_link), (self.middle, "to-client"),
                                (self.middle, "to-server")):  # fmt: skip
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
            run("ip", "-n", namespace, "link", "set", name, "up")
        self._complete_checksums()
        self.link = subprocess.Popen(
            ("ip", "netns", "exec", self.middle, sys.executable, Path(__file__).with_name("impaired_link.py"),
             "to-client", "to-server"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.impair(Impairments())

    def _join(self):
        for namespace, link, end in ((self.client, self.client_link, "to-client"),
                                     (self.server, self.server_link, "to-server")):
            run("ip", "link", "add", end, "netns", self.middle, "type", "veth",
                "peer", "name", link, "netns", namespace)

    def _complete_checksums(self):
        """Makes the clients' kernel compute UDP checksums, so that damage to a datagram is noticed."""
        with self.socket() as control:
            value = ctypes.create_string_buffer(struct.pack("<II", ETHTOOL_STXCSUM, 0))
            request = struct.pack("16sP", self.client_link.encode(), ctypes.addressof(value))
            fcntl.ioctl(control, SIOCETHTOOL, request)

    def remove(self):
        if self.link is not None:
            self.link.stdin.close()
            self.link.wait(10)
        super().remove()
        subprocess.run(("ip", "netns", "del", self.middle), stderr=subprocess.DEVNULL, check=False)

    def know(self, server_mac):
        """Makes the clients' kernel keep the server's MAC address: without it, the loss of three ARP requests in a row
        fails a send."""
        run("ip", "-n", self.client, "neigh", "replace", SERVER_IPV4, "lladdr", server_mac, "dev", self.client_link,
            "nud", "permanent")

    def impair(self, impairments):
        """Sets what the link does from now on. Returns the counts of both directions since the call before."""
        self.link.stdin.write(json.dumps(dataclasses.asdict(impairments)) + "\n")
        self.link.stdin.flush()
        return json.loads(self.link.stdout.readline())
