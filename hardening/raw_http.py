"""A client that sends raw bytes and returns the raw bytes of the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# The time limit of every scenario for one answer.
TIMEOUT_SECONDS: Final = 60.0
# The limit of common clients for a response head; no answer needs as much.
_HEAD_LIMIT: Final = 64 * 1024
# Headers that differ between two equal answers.
_VARYING: Final = frozenset({"date", "x-request-id"})


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, byte for byte, with its duration in seconds."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    seconds: float

    def header(self, name: str) -> str | None:
        """Return the value of the first header of that name, which is given in lower case."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def comparable(self) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """Return the parts that are equal in two indistinguishable answers."""
        lasting = tuple(header for header in self.headers if header[0] not in _VARYING)
        return self.status, lasting, self.body


class NoResponseError(Exception):
    """The connection ended before the answer did; `reset` if it was not closed in order."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__("reset" if reset else "closed")
        self.reset = reset


class RawConnection:
    """One connection, opened when needed and kept for as long as the server keeps it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether a connection is open that the server has not closed."""
        return self._streams is not None and not self._streams[0].at_eof()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or not self.is_open:
            self.abort()
            self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=_HEAD_LIMIT)
        return self._streams

    async def request(
        self,
        target: str | bytes,
        credential: str | None = None,
        *headers: bytes,
        method: str = "GET",
        body: bytes = b"",
    ) -> Response:
        """Send a request and wait for the whole answer.

        Raises:
            NoResponseError: the connection ended first.
            TimeoutError: the answer takes longer than `TIMEOUT_SECONDS`.
        """
        began = time.perf_counter()
        await self.send(build_request(target, credential, *headers, method=method, body=body))
        return await self.read(began, bodiless=method == "HEAD")

    async def send(self, data: bytes) -> None:
        try:
            _, writer = await self.open()
            writer.write(data)
            await writer.drain()
        except ConnectionError as error:
            self.abort()
            raise NoResponseError(reset=isinstance(error, ConnectionResetError)) from error

    async def read(self, began: float | None = None, *, bodiless: bool = False) -> Response:
        """Read the next response.

        Raises:
            NoResponseError: the connection ended first.
            TimeoutError: the answer takes longer than `TIMEOUT_SECONDS`.
        """
        began = time.perf_counter() if began is None else began
        reader, _ = await self.open()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, headers = read_head(head)
                length = next((int(v) for k, v in headers if k == "content-length"), 0)
                has_body = not bodiless and status not in (204, 304)
                body = await reader.readexactly(length) if has_body else b""
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.abort()
            raise NoResponseError(reset=isinstance(error, ConnectionResetError)) from error
        response = Response(status, headers, body, time.perf_counter() - began)
        if head.startswith(b"HTTP/1.0") or (response.header("connection") or "").lower() == "close":
            self.abort()
        return response

    def abort(self) -> None:
        """Abort the connection without notice."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def build_request(
    target: str | bytes,
    credential: str | None = None,
    *headers: bytes,
    method: str = "GET",
    body: bytes = b"",
) -> bytes:
    """Build the bytes of a request without encoding or checking anything."""
    lines = [b"%s %s HTTP/1.1" % (method.encode(), as_bytes(target)), b"Host: service.example"]
    if credential is not None:
        lines.append(b"Authorization: Bearer " + as_bytes(credential))
    if body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join((*lines, *headers, b"", b"")) + body


def read_head(head: bytes) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Parse status and headers; names become lower case."""
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    return int(first.split(" ", 2)[1]), tuple(_fields(rest))


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(":")
        yield name.lower(), value.strip()


def as_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
