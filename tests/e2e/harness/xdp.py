"""Tells if this kernel allows AF_XDP, by trying the two steps that it may lack or refuse."""

import ctypes
import os
import platform
import socket
import struct

AF_XDP = 44
BPF_PROG_LOAD, BPF_PROG_TYPE_XDP = 5, 6
BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}


def why_no_xdp():
    """None if AF_XDP works, else the reason."""
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        return f"no AF_XDP sockets here: {error.strerror}"
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        return None
    # r0 = XDP_PASS; exit
    program = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = ctypes.create_string_buffer(
        struct.pack("<IIQQ", BPF_PROG_TYPE_XDP, 2, ctypes.addressof(program), ctypes.addressof(licence)), 128)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(number, BPF_PROG_LOAD, attributes, len(attributes))
    if fd < 0:
        return f"no XDP programs may be loaded here: {os.strerror(ctypes.get_errno())}"
    os.close(fd)
    return None
