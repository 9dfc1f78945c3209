"""One kept-alive HTTP/1.1 connection, which carries one request at a time. Knows no Elasticsearch.

llhttp parses the responses. A connection on which anything unexpected happens is closed, so that no
response is ever read as that of another request.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final, NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_INTERIM: Final = range(100, 200)
_LENGTHS: Final = ("content-length", "transfer-encoding")

# The most bytes in the body of a response to the requests of this task; None for any number.
max_body_bytes: Final[ContextVar[int | None]] = ContextVar("max_body_bytes", default=None)


class LargeBodyError(Exception):
    """The body of a response has more than `max_body_bytes`; the connection was closed."""


class Response(NamedTuple):
    """A whole response; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpConnection(asyncio.Protocol):
    """A connection; raises `OSError` if it breaks, or if what it receives is not HTTP."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._bytes_left: int | None = None
        # Whether the body of the response ends where the connection does.
        self._ends_with_connection = False
        self._response: asyncio.Future[Response] | None = None
        self.idle_since = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it is open and can carry a request."""
        return self._transport is not None and self._response is None

    def close(self) -> None:
        """Close at once, without sending the rest of a request."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._parser = None

    async def send(self, request: bytes) -> Response:
        """Send the bytes of one request; return the response if it has at most `max_body_bytes`.

        The connection is idle afterwards if it can carry another request. If the caller is
        cancelled, it is not idle and has to be closed.
        """
        if self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._response = asyncio.get_running_loop().create_future()
        self._bytes_left = max_body_bytes.get()
        self._transport.write(request)
        return await self._response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        if self._response is None:
            # Nobody asked, so this cannot be the response to the next request.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the response is not HTTP/1.1 ({type(error).__name__})"))

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._ends_with_connection:
            self.on_message_complete()
        closed = ConnectionResetError("the connection was closed")
        self._fail(exc if isinstance(exc, OSError) else closed)

    def _fail(self, error: Exception) -> None:
        response, self._response = self._response, None
        self.close()
        if response is not None and not response.done():
            response.set_exception(error)

    # The methods that the parser calls.

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._ends_with_connection = self._headers.keys().isdisjoint(_LENGTHS)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        if self._bytes_left is not None:
            self._bytes_left -= len(body)
            if self._bytes_left < 0:
                self._body = []
                self._fail(LargeBodyError())

    def on_message_complete(self) -> None:
        self._ends_with_connection = False
        parser, transport, response = self._parser, self._transport, self._response
        if parser is None or transport is None or response is None:
            # A second response to one request.
            self.close()
            return
        status = parser.get_status_code()
        if status in _INTERIM:
            return
        self._response = None
        if not parser.should_keep_alive() or transport.get_write_buffer_size():
            self.close()
        if not response.done():
            response.set_result(Response(status, self._headers, b"".join(self._body)))
