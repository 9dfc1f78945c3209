"""How a listening socket is closed without resetting anybody who has just connected."""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

# Of the classic packet filter, see socket(7) and bpf(4): each an operation, how many of the next
# to leave out where a comparison holds and where it does not, and a number.
_SO_ATTACH_FILTER: Final = 26
_DROP_FIRST_PACKETS: Final = (
    # The flags of the TCP header; of these SYN and ACK; are they SYN alone?
    struct.pack("HBBI", 0x30, 0, 0, 13),
    struct.pack("HBBI", 0x54, 0, 0, 0x12),
    struct.pack("HBBI", 0x15, 0, 1, 0x02),
    # Keep no byte of it; or else keep all.
    struct.pack("HBBI", 0x06, 0, 0, 0),
    struct.pack("HBBI", 0x06, 0, 0, 0xFFFF_FFFF),
)


def refuse_new_connections(sock: socket.socket) -> None:
    """Have nobody begin to connect to the socket any more, whoever has a copy of it.

    The kernel connects whom nobody has accepted yet, and between the last look for such and the
    end of a socket there is always a moment. A filter that drops the first packet of a connection
    has nobody come in it: who asks to connect asks again a second later, and is refused. Those who
    are half-way through go on.
    """
    if sys.platform != "linux":
        return
    program = ctypes.create_string_buffer(b"".join(_DROP_FIRST_PACKETS))
    told = struct.pack("HP", len(_DROP_FIRST_PACKETS), ctypes.addressof(program))
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)


def accept_all(sock: socket.socket) -> Iterator[socket.socket]:
    """Who has connected already and waits to be let in: closing the door would reset them."""
    while True:
        try:
            accepted, _ = sock.accept()
        except OSError:
            return
        accepted.settimeout(0)
        yield accepted
