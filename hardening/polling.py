"""`python -m hardening.polling PORT TARGET`: sends one request every 10 ms until stdin ends.

It is a separate process with blocking calls, so the attacker's Python code cannot delay it. The key
is in `KEY`. At the end it prints one JSON document: the time of each request on the clock that all
processes share, its duration, and the failures.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from typing import Final

import orjson

from hardening.raw_http import build_request, read_head

INTERVAL: Final = 0.010
# The time limit of one request, in seconds: longer than any attack.
_TIMEOUT_SECONDS: Final = 120.0
_PIECE: Final = 65_536
_MAX_FAILURES: Final = 20


class Poller:
    """One keep-alive connection, and the outcome of each request."""

    def __init__(self, port: int, target: str, key: str) -> None:
        self._address = ("127.0.0.1", port)
        self._request = build_request(target, key)
        self._socket: socket.socket | None = None
        # The first answer is the right one: the poller gets it before any attack.
        self._right: bytes | None = None
        self.samples: list[tuple[float, float, bool]] = []
        self.failures: list[str] = []

    def poll(self) -> None:
        """Send one request. Reconnect if the server closed cleanly; the time includes that."""
        began = time.monotonic()
        try:
            status, body = self._exchange()
            failure = self._judge(status, body)
        except OSError as error:
            self.close()
            failure = f"{type(error).__name__} instead of an answer"
        self.samples.append((began, time.monotonic() - began, failure is None))
        if failure is not None and len(self.failures) < _MAX_FAILURES:
            self.failures.append(failure)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(self._request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        status, fields = read_head(head)
        headers = dict(fields)
        length = int(headers.get("content-length", 0))
        while len(body) < length:
            body += self._receive()
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, body

    def _receive(self) -> bytes:
        if self._socket is None:
            raise ConnectionError("there is no connection")
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise ConnectionError("the connection ended before the answer did")
        return piece

    def _judge(self, status: int, body: bytes) -> str | None:
        if status != 200:
            return f"{status}: {body[:120]!r}"
        if self._right is None:
            self._right = body
        return None if body == self._right else f"another body: {body[:120]!r}"


def run(port: int, target: str, key: str) -> None:
    poller = Poller(port, target, key)
    print("ready", flush=True)
    following = time.monotonic()
    while True:
        following = max(following + INTERVAL, time.monotonic())
        readable, _, _ = select.select([sys.stdin], [], [], max(0.0, following - time.monotonic()))
        if readable:
            break
        poller.poll()
    poller.close()
    print(orjson.dumps({"samples": poller.samples, "failures": poller.failures}).decode())


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], os.environ["KEY"])
