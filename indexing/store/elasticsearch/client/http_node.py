"""The connections to one node, behind the node interface of the official client.

A request through a session of aiohttp, as the client's own node class sends it, takes several times
the CPU time. The client's transport still chooses nodes, retries, encodes and decodes.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import re
import socket
import ssl
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import aiohappyeyeballs
import elastic_transport
from aiohappyeyeballs import AddrInfoType
from elastic_transport import (
    ApiResponseMeta,
    BaseAsyncNode,
    ConnectionTimeout,
    HttpHeaders,
    NodeConfig,
    TlsError,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT, DefaultType

from indexing.store.elasticsearch.client.compression import GZIP
from indexing.store.elasticsearch.client.failures import LargeAnswerError
from indexing.store.elasticsearch.client.http_connection import (
    HttpConnection,
    LargeBodyError,
    Response,
)

# A proxy or firewall may drop a connection that nobody uses, without closing it.
_MAX_IDLE_SECONDS: Final = 15.0
# RFC 8305, section 5: the delay after which the next address of a name is tried too.
_NEXT_ADDRESS_SECONDS: Final = 0.25

# A machine that is off does not answer. The kernel of a busy one does, and this leaves time to ask
# it twice more. TLS and the request have the rest of their own time.
_CONNECT_SECONDS: Final = 3.5

# RFC 9110, section 8.6: these say that they have no body, too.
_WITH_BODY: Final = frozenset({"POST", "PUT"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Anything else would end the request line, or a header, and begin another.
_TARGET: Final = re.compile(r"/[!-~]*")
_HEADER: Final = re.compile(r"[!-9;-~]+: [\t -~\x80-\xff]*")


class HttpNode(BaseAsyncNode):
    """One node; create, use and close on one event loop."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self._tls: ssl.SSLContext | None = None
        if config.scheme == "https":
            self._tls = config.ssl_context or ssl.create_default_context()
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._turns = itertools.count()
        self._slots = asyncio.Semaphore(config.connections_per_node)
        self._heads: dict[tuple[tuple[str, str], ...], str] = {}
        # Whether the last request was answered, with whatever status.
        self.has_answered = True

    async def perform_request(  # type: ignore[override]
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: DefaultType | float | None = DEFAULT,
    ) -> NodeApiResponse:
        """Send a request and return the response, whatever its status; `HEAD` is not supported.

        Raises:
            ConnectionTimeout: no response in time.
            TlsError: no encrypted connection can be made.
            ConnectionError: the connection broke, or the response is not HTTP/1.1.
            LargeAnswerError: the response has more than `max_body_bytes`.
        """
        limit = self.config.request_timeout if request_timeout is DEFAULT else request_timeout
        request = self._encode(method, target, body, headers)
        start = time.monotonic()
        try:
            async with asyncio.timeout(limit) as deadline:
                response = await self._exchange(request)
            raw = _decode(response)
        except LargeBodyError:
            # The transport does not repeat this request, nor avoid the node.
            raise LargeAnswerError("Elasticsearch gives a larger answer than accepted") from None
        except ssl.SSLError as error:
            self.has_answered = False
            raise TlsError(str(error), errors=(error,)) from None
        except (OSError, EOFError, zlib.error) as error:
            self.has_answered = False
            if deadline.expired():
                raise ConnectionTimeout("no response in time", errors=(error,)) from None
            raise elastic_transport.ConnectionError(str(error), errors=(error,)) from None
        self.has_answered = True
        meta = ApiResponseMeta(
            node=self.config,
            duration=time.monotonic() - start,
            http_version="1.1",
            status=response.status,
            headers=HttpHeaders(response.headers),
        )
        return NodeApiResponse(meta, raw)

    async def close(self) -> None:  # type: ignore[override]
        """Close all connections; requests in progress fail."""
        while self._open:
            self._open.pop().close()
        self._idle.clear()
        # The event loop closes the sockets in its next iteration.
        await asyncio.sleep(0)

    async def _exchange(self, request: bytes) -> Response:
        async with self._slots:
            connection = self._take_idle() or await self._connect()
            try:
                return await connection.send(request)
            finally:
                if connection.is_idle:
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
                else:
                    self._close(connection)

    def _take_idle(self) -> HttpConnection | None:
        oldest = time.monotonic() - _MAX_IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle and connection.idle_since > oldest:
                return connection
            self._close(connection)
        return None

    def _close(self, connection: HttpConnection) -> None:
        connection.close()
        self._open.discard(connection)

    async def _connect(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        async with asyncio.timeout(_CONNECT_SECONDS):
            connected = await aiohappyeyeballs.start_connection(
                self._in_turn(addresses), happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS
            )
        try:
            _, connection = await loop.create_connection(
                HttpConnection,
                sock=connected,
                ssl=self._tls,
                # The dot at the end of a name is not part of it in certificates.
                server_hostname=None if self._tls is None else self.host.rstrip("."),
            )
        except BaseException:
            connected.close()
            raise
        self._open.add(connection)
        return connection

    def _in_turn(self, addresses: Sequence[AddrInfoType]) -> list[AddrInfoType]:
        """Return the addresses with another one first each time: nodes may share a name."""
        families = [family for family, *_ in addresses]
        first = next(self._turns) % len(addresses)
        # The family that the system prefers stays first.
        return sorted(
            [*addresses[first:], *addresses[:first]], key=lambda each: families.index(each[0])
        )

    def _encode(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> bytes:
        if not _TARGET.fullmatch(target):
            raise ValueError("a target of a request has characters that must be encoded")
        given = () if headers is None else tuple(headers.items())
        # Few combinations of headers are ever sent.
        fixed = self._heads.get(given)
        if fixed is None:
            fixed = self._heads[given] = self._encode_headers(dict(given))
        length = f"content-length: {len(body or b'')}\r\n" if body or method in _WITH_BODY else ""
        head = f"{method} {self.path_prefix}{target} HTTP/1.1\r\n{fixed}{length}\r\n"
        return head.encode("latin-1") + (body or b"")

    def _encode_headers(self, headers: Mapping[str, str]) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != _DEFAULT_PORTS.get(self.scheme):
            host += f":{self.port}"
        # Headers of the request override those of the node, such as the credentials of its URL.
        sent = HttpHeaders({"host": host, **self.headers})
        sent.update(headers)
        lines = [f"{name}: {value}" for name, value in sent.items()]
        if not all(map(_HEADER.fullmatch, lines)):
            raise ValueError("a header of a request has characters that are not allowed")
        return "".join(f"{line}\r\n" for line in lines)


def _decode(response: Response) -> bytes:
    encoding = response.headers.get("content-encoding", "")
    return gzip.decompress(response.body) if encoding.lower() == GZIP else response.body
