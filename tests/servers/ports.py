"""Ports that a server keeps across restarts."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
# Below the range that kernels use for outgoing connections: while a server is down, no such
# connection can take its port.
RANGE: Final = range(15000, 32000)


class Port:
    """A port reserved by this process: no other user of this module takes it until `release`.

    The operating system frees the port of a killed server at once, so a lock holds it.
    """

    def __init__(self, number: int, lock: int) -> None:
        self.number = number
        self._lock = lock

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def reserve(preferred: int | None = None) -> Port:
    """A free port; the preferred one if that is free.

    Raises:
        OSError: none is free.
    """
    first: Iterable[int] = () if preferred is None else (preferred,)
    for number in (*first, *random.sample(RANGE, len(RANGE))):
        port = _claim(number)
        if port is not None:
            return port
    raise OSError(f"no free port between {RANGE.start} and {RANGE.stop}")


def _claim(number: int) -> Port | None:
    folder = Path(tempfile.gettempdir(), f"mergewatch-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            # As servers do, so that lingering connections on the port do not block it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, number))
    except OSError:
        os.close(lock)
        return None
    return Port(number, lock)
