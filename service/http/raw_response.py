"""Responses with a head that is encoded in advance, as encoding it costs most of a response.

A head is the status line and the header fields. Fields that belong to one request, such as its id,
are added when the response is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import HttpVersion11
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from aiohttp.web import BaseRequest, Response, StreamResponse
from multidict import CIMultiDict

from service.http.query_string import IGNORED_HEADER
from service.http.response_headers import RESPONSE_HEADERS

# No shared cache may reuse a response to a credential without revalidation.
PRIVATE: Final[Mapping[str, str]] = {
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization",
}

# A longer body is sent in pieces, each once the client has read most of those before it. A whole
# response would be copied, once for each client, and hold up the event loop while it is sent.
SHORT_BODY_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024

# Names and values of header fields, in their order.
Fields = Sequence[tuple[str, str]]


def write_head(
    headers: CIMultiDict[str], size: int | None, status: HTTPStatus = HTTPStatus.OK
) -> bytes:
    """Return the head of a response with these fields, without the empty line at its end.

    `size` is that of its body in bytes; `None` for a status without a body.
    """
    line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
    length = "" if size is None else f"Content-Length: {size}\r\n"
    return f"{line}{length}{_fields(headers)}".encode()


class HeadTemplate:
    """The head of responses that differ in one field in the middle and some at the end.

    It writes what `write_head` writes for all fields in that order, in a quarter of the time.
    """

    def __init__(self, before: CIMultiDict[str], after: CIMultiDict[str]) -> None:
        self._before, self._after = _fields(before), _fields(after)

    def write(self, size: int, middle: Fields, end: Fields) -> bytes:
        """Return the head of a 200 with a body of `size` bytes and these fields of its own."""
        own, last = _lines(middle), _lines(end)
        return (
            f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n{self._before}{own}{self._after}{last}"
        ).encode()


class AnswerHeaders(NamedTuple):
    """The headers of a response with an answer, as far as they differ between responses."""

    etag: str
    links: Sequence[str]
    ignored: str | None
    negotiated: bool

    def to_dict(self) -> CIMultiDict[str]:
        """Return all headers."""
        etag, links, ignored, negotiated = self
        return headers_of(links, etag=etag, ignored=ignored, negotiated=negotiated)

    def write_head(self, size: int) -> bytes:
        """Return what `write_head` returns for all headers and a body of that size."""
        own = [("ETag", self.etag)]
        if self.ignored is not None:
            own.append((IGNORED_HEADER, self.ignored))
        return _HEADS[self.negotiated].write(size, own, [("Link", value) for value in self.links])


def headers_of(
    links: Sequence[str] = (),
    *,
    etag: str | None = None,
    ignored: str | None,
    negotiated: bool = False,
) -> CIMultiDict[str]:
    """Return the headers of a response with a body; its media type may be `negotiated`."""
    headers = _first_headers(negotiated=negotiated)
    if etag is not None:
        headers["ETag"] = etag
    if ignored is not None:
        headers[IGNORED_HEADER] = ignored
    headers.extend(RESPONSE_HEADERS)
    headers.extend(("Link", value) for value in links)
    return headers


def _first_headers(*, negotiated: bool) -> CIMultiDict[str]:
    headers = CIMultiDict({"Content-Type": "application/json", **PRIVATE})
    if negotiated:
        headers.add("Vary", "Accept")
    return headers


def takes_raw_response(request: BaseRequest) -> bool:
    """Whether a `RawResponse` can answer the request: a GET by HTTP/1.1."""
    return request.method == "GET" and request.version == HttpVersion11


class BatchedWrites:
    """Writes the responses of one iteration of the event loop together.

    A write runs the kernel's code and wakes a client that waits. In a row, writes take less time
    than between the steps of other requests.
    """

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []

    def add(self, write: Callable[[], None]) -> None:
        """Call `write` after the callbacks that are ready now."""
        if not self._writes:
            asyncio.get_running_loop().call_soon(self._write_all)
        self._writes.append(write)

    def _write_all(self) -> None:
        writes, self._writes = self._writes, []
        for write in writes:
            write()


class RawResponse(StreamResponse):
    """A response to a GET by HTTP/1.1: a head by `write_head`, and its body."""

    def __init__(self, head: bytes, body: bytes, status: HTTPStatus = HTTPStatus.OK) -> None:
        super().__init__(status=status)
        self._head = head
        self._content = body
        self._stays: bool | None = None
        self._writer: AbstractStreamWriter | None = None
        # Writes a whole response to the connection, after which it stays open.
        self.write_later: Callable[[bytes], None] | None = None

    @property
    def content(self) -> bytes:
        """The body of the response."""
        return self._content

    @property
    def fields(self) -> CIMultiDict[str]:
        """The header fields in the head; those that layers add later are in `headers`."""
        lines = self._head.decode().split("\r\n")[1:-1]
        pairs = (line.partition(": ") for line in lines)
        return CIMultiDict((name, value) for name, _, value in pairs)

    @property
    def keep_alive(self) -> bool | None:
        return self._stays

    def force_close(self) -> None:
        self._stays = False

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter:
        if self._stays is None:
            self._stays = request.keep_alive
        self._writer = request.writer
        return self._writer

    async def write_eof(self, data: bytes = b"") -> None:
        if self._writer is None or data:
            raise RuntimeError("a raw response is prepared first, and has its body already")
        end = "" if self._stays else "Connection: close\r\n"
        fields = end + _fields(self.headers)
        if len(self._content) > SHORT_BODY_BYTES:
            await self._writer.write(write_whole(self._head, fields, b""))
            await _write_pieces(self._writer, self._content)
            await self._writer.write_eof()
            # The connection keeps the response until its next request.
            self._content = b""
            return
        text = write_whole(self._head, fields, self._content)
        if self.write_later is None or not self._stays:
            await self._writer.write_eof(text)
        else:
            self.write_later(text)


async def _write_pieces(writer: AbstractStreamWriter, body: bytes) -> None:
    for start in range(0, len(body), _PIECE_BYTES):
        # It waits only for a client that reads more slowly than this process writes. Each piece is
        # a copy: what is not sent yet would otherwise keep the whole body in memory.
        await writer.write(body[start : start + _PIECE_BYTES])
        await asyncio.sleep(0)


class Pieces(Payload):
    """A long body that aiohttp's own response sends in pieces."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await _write_pieces(writer, self._value)

    def _close(self) -> None:
        self._value = b""


def body_of(response: StreamResponse) -> bytes:
    """Return the body of a response; empty if it is not in memory, as that of a stream."""
    if isinstance(response, RawResponse):
        return response.content
    body = response.body if isinstance(response, Response) else None
    return body if isinstance(body, bytes) else b""


def is_long(response: RawResponse | Response) -> bool:
    """Whether the body of a response is too long to be sent at once."""
    return len(body_of(response)) > SHORT_BODY_BYTES


def write_whole(head: bytes, fields: str, body: bytes) -> bytes:
    """Return a whole response: a head by `write_head`, fields of its own, and the body.

    Each of the `fields` ends with CRLF.
    """
    return b"".join((head, f"Date: {_dates.now()}\r\n{fields}\r\n".encode(), body))


def _fields(headers: CIMultiDict[str]) -> str:
    return _lines([*headers.items()])


def _lines(fields: Fields) -> str:
    text = ""
    for name, value in fields:
        text += f"{name}: {value}\r\n"
    # A value that contains a line break would add a header field.
    if text.count("\r") + text.count("\n") != 2 * len(fields):
        raise ValueError("a header field contains a line break")
    return text


# By whether the media type is negotiated.
_HEADS: Final = {
    negotiated: HeadTemplate(_first_headers(negotiated=negotiated), RESPONSE_HEADERS)
    for negotiated in (False, True)
}


class _Dates:
    """The current date in the format of HTTP, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def now(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second, self._text = second, formatdate(second, usegmt=True)
        return self._text


_dates: Final = _Dates()
