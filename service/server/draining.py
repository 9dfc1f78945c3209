"""Closes a listening socket without resetting connections that were just made."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

# A program for the classic packet filter, see socket(7) and bpf(4). Each instruction is an
# operation, how many instructions to skip if a comparison is true and if not, and a number.
_SO_ATTACH_FILTER: Final = 26
_DROP_FIRST_PACKETS: Final = (
    # Load the flags of the TCP header, mask SYN and ACK, and compare them with SYN alone.
    struct.pack("HBBI", 0x30, 0, 0, 13),
    struct.pack("HBBI", 0x54, 0, 0, 0x12),
    struct.pack("HBBI", 0x15, 0, 1, 0x02),
    # If they are equal, keep no byte of the packet, or else keep all.
    struct.pack("HBBI", 0x06, 0, 0, 0),
    struct.pack("HBBI", 0x06, 0, 0, 0xFFFF_FFFF),
)


def refuse_new_connections(sock: socket.socket) -> None:
    """Refuse new connections to the socket, whichever process has a copy of it.

    The kernel completes connections before a process accepts them. Between the last check for such
    connections and the closing of the socket there is always a gap. A filter that drops the first
    packet of each connection closes the gap: the client tries again a second later, and is refused.
    Half-open connections are still completed.
    """
    if sys.platform != "linux":
        return
    # Its import takes longer than closing the socket, and only the end of a process needs it.
    import ctypes

    program = ctypes.create_string_buffer(b"".join(_DROP_FIRST_PACKETS))
    attached = struct.pack("HP", len(_DROP_FIRST_PACKETS), ctypes.addressof(program))
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)


def accept_all(sock: socket.socket) -> Iterator[socket.socket]:
    """Accept and yield the waiting connections: closing the socket would reset them."""
    while True:
        try:
            accepted, _ = sock.accept()
        except OSError:
            return
        accepted.settimeout(0)
        yield accepted
