"""Responses with a head that is encoded in advance, as encoding it costs most of a response.

A head is the status line and the header fields. Fields that belong to one request, such as its id,
are added when the response is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from aiohttp import HttpVersion11
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web import BaseRequest, Response, StreamResponse
from multidict import CIMultiDict


def respond_whole(request: BaseRequest, headers: CIMultiDict[str], body: bytes) -> StreamResponse:
    """Return a 200 with this body and these header fields."""
    if takes_raw_response(request):
        return RawResponse(write_head(headers, len(body)), body)
    return Response(body=body, headers=headers)


def write_head(
    headers: CIMultiDict[str], size: int | None, status: HTTPStatus = HTTPStatus.OK
) -> bytes:
    """Return the head of a response with these fields, without the empty line at its end.

    `size` is that of its body in bytes; `None` for a status without a body.
    """
    line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
    length = "" if size is None else f"Content-Length: {size}\r\n"
    return f"{line}{length}{_fields(headers)}".encode()


def takes_raw_response(request: BaseRequest) -> bool:
    """Whether a `RawResponse` can answer the request: a GET by HTTP/1.1."""
    return request.method == "GET" and request.version == HttpVersion11


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
        text = write_whole(self._head, end + _fields(self.headers), self._content)
        if self.write_later is None or not self._stays:
            await self._writer.write_eof(text)
        else:
            self.write_later(text)


def write_whole(head: bytes, fields: str, body: bytes) -> bytes:
    """Return a whole response: a head by `write_head`, fields of its own, and the body.

    Each of the `fields` ends with CRLF.
    """
    return b"".join((head, f"Date: {_dates.now()}\r\n{fields}\r\n".encode(), body))


def _fields(headers: CIMultiDict[str]) -> str:
    text = ""
    for name, value in headers.items():
        text += f"{name}: {value}\r\n"
    # A value that contains a line break would add a header field.
    if text.count("\r") + text.count("\n") != 2 * len(headers):
        raise ValueError("a header field contains a line break")
    return text


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
