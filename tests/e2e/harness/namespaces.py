"""Two network namespaces joined by a veth, as tools/lib/namespaces.sh makes them.

Tests run outside of the namespaces, but their sockets belong to the clients' namespace: a socket belongs to the
namespace in which it is created, so `socket()` enters it for that moment.
"""

import contextlib
import ctypes
import os
import socket
import subprocess

CLONE_NEWNET = 0x40000000
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
        run("ip", "link", "add", self.server_link, "netns", self.server, "type", "veth",
            "peer", "name", self.client_link, "netns", self.client)
        run("ip", "netns", "exec", self.server, "sysctl", "-qw",
            f"net.ipv6.conf.{self.server_link}.disable_ipv6=1")
        run("ip", "-n", self.server, "link", "set", self.server_link, "up")
        run("ip", "-n", self.client, "link", "set", "lo", "up")
        run("ip", "-n", self.client, "addr", "add", f"{CLIENT_IPV4}/24", "dev", self.client_link)
        run("ip", "-n", self.client, "addr", "add", f"{CLIENT_IPV6}/64", "dev", self.client_link,
            "nodad")
        run("ip", "-n", self.client, "link", "set", self.client_link, "up")

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
