"""Sends requests and retries them; does not know the operations of the API.

The token is sent in one header only. Errors do not contain it, even if a server echoes it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import aiohttp
import orjson
from yarl import URL

from mergewatch.client.errors import (
    BrokenStreamError,
    FieldError,
    ForeignServiceError,
    ProblemError,
    UnreachableError,
)
from mergewatch.client.proxies import find_proxy
from mergewatch.client.retries import MAX_ATTEMPTS, RETRIED_STATUSES, seconds_to_wait

# Ample: a batch of results is normally stored within two seconds, and a page takes less to read.
ATTEMPT_SECONDS: Final = 60.0
TIMEOUT: Final = aiohttp.ClientTimeout(total=ATTEMPT_SECONDS, connect=10)

# While the service has no event to send, it sends a comment every 15 seconds. A stream has to begin
# within `ATTEMPT_SECONDS`.
STREAM_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_read=60)

# Ample: a page has at most 100 rows, and the largest are events of 1 MiB.
MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
# A problem body has a few hundred bytes; the rest of a longer one is ignored.
_MAX_PROBLEM_BYTES: Final = 64 * 1024
_MAX_SHOWN_LENGTH: Final = 500
# A `Link` header repeats the target of the request up to four times.
_MAX_HEADER_BYTES: Final = 64 * 1024
_SCHEMES: Final = frozenset({"http", "https"})

# The response did not arrive, or not all of it.
_LOST_RESPONSE: Final = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)
# Connecting failed or took too long.
_NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# A proxy did not get the response of the service.
_GATEWAY_STATUSES: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Response:
    """A successful response."""

    content_type: str
    link: str
    body: bytes


class Transport:
    """Sends requests to one service. Create and close it on the same event loop."""

    def __init__(self, url: str, token: str, *, sleep: Sleep) -> None:
        """Create the session; `url` may have a path under which a proxy serves the API.

        Raises:
            ValueError: no request can be sent with this URL or token.
        """
        _check(url, token)
        self.url = url.rstrip("/")
        self._token = token
        self._sleep = sleep
        self._proxy = find_proxy(url)
        self._proxy_url = self._proxy.url if self._proxy else None
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            middlewares=(_send_only_once,),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request, with retries. `path` and `query` are percent-encoded.

        Raises:
            ProblemError: the service refused the request.
            UnreachableError: there is no response.
            ForeignServiceError: the response is larger than any response of the service.
        """
        target = self._target(path, query)
        return await self._retry(partial(self._send_once, method, target, body, headers))

    @asynccontextmanager
    async def open_stream(
        self,
        path: str,
        media_type: str,
        *,
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Open a streamed response of this media type, and yield a generator of its chunks.

        Raises:
            ProblemError, UnreachableError, ForeignServiceError: as `send` does.
            BrokenStreamError: the connection broke, or no byte arrived for a minute.
        """
        target = self._target(path, query)
        sent = {**(headers or {}), "Accept": media_type}
        response = await self._retry(partial(self._open_once, target, sent))
        try:
            if response.content_type != media_type:
                raise ForeignServiceError(f"{self.url} sends no {media_type}")
            async with aclosing(self._pieces(response)) as pieces:
                yield pieces
        finally:
            response.close()

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError, OSError, ValueError) as error:
            reason = self.shown(str(error) or type(error).__name__)
            raise BrokenStreamError(f"{self.url} broke the stream off: {reason}") from None

    def _target(self, path: str, query: str) -> URL:
        return URL(f"{self.url}{path}{'?' if query else ''}{query}", encoded=True)

    async def _retry(self, request: Callable[[], Awaitable[T | _Refusal]]) -> T:
        if self._proxy and self._proxy.url is None:
            # Its value can hold a password.
            wrong = f"{self._proxy.setting} must be a URL such as http://proxy.example:3128"
            raise UnreachableError(f"{self.url} cannot be reached: {wrong}")
        attempt = 1
        response_lost = retried_at_once = False
        while True:
            try:
                response = await request()
            except _LOST_RESPONSE as error:
                # The service may be restarting, so retry; a bad certificate will not change.
                if attempt == MAX_ATTEMPTS or isinstance(error, aiohttp.ClientSSLError):
                    raise self._unreachable(error) from None
                retry_after = None
                # Without a connection, the service has not received the request.
                response_lost |= not isinstance(error, _NOT_CONNECTED)
                if isinstance(error, _LostConnectionError) and not retried_at_once:
                    retried_at_once = True
                    # The service may close an idle connection while the request is on its way.
                    # https://www.rfc-editor.org/rfc/rfc9112.html#name-retrying-requests
                    attempt += 1
                    continue
            else:
                if not isinstance(response, _Refusal):
                    return response
                if response.status not in RETRIED_STATUSES or attempt == MAX_ATTEMPTS:
                    raise self._problem(response, attempt, response_lost=response_lost)
                retry_after = response.retry_after
                response_lost |= response.status in _GATEWAY_STATUSES
            await self._sleep(seconds_to_wait(retry_after, attempt))
            attempt += 1

    def shown(self, text: str) -> str:
        """Shorten untrusted text, and mask the token in it."""
        return text.replace(self._token, "\u2026")[:_MAX_SHOWN_LENGTH]

    async def _open_once(
        self, target: URL, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse | _Refusal:
        end = asyncio.get_running_loop().time() + ATTEMPT_SECONDS
        try:
            async with asyncio.timeout_at(end):
                response = await self._session.get(
                    target,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._proxy_url,
                    timeout=STREAM_TIMEOUT,
                )
            if response.status == HTTPStatus.OK:
                return response
            async with response:
                return await _read_refusal(response, end)
        except _LOST_RESPONSE:
            raise
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise self._unreachable(error) from None

    async def _send_once(
        self, method: str, target: URL, body: bytes | None, headers: Mapping[str, str] | None
    ) -> Response | _Refusal:
        try:
            # A redirect would send the token to another host.
            async with self._session.request(
                method,
                target,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy_url,
            ) as response:
                if not 200 <= response.status < 300:
                    return await _read_refusal(response)
                content = await _read(response, MAX_RESPONSE_BYTES)
                if len(content) > MAX_RESPONSE_BYTES:
                    most = f"{MAX_RESPONSE_BYTES:,} bytes"
                    raise ForeignServiceError(f"{self.url} sent a response of more than {most}")
                # Links that are too long for one field come in several.
                link = ", ".join(response.headers.getall("Link", ()))
                return Response(response.content_type, link, content)
        except _LOST_RESPONSE:
            raise
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        """Return an error without a cause, which could contain the headers of the request."""
        reason = self.shown(_explain(error) or type(error).__name__)
        proxy = f" through the proxy of {self._proxy.setting}" if self._proxy else ""
        return UnreachableError(f"{self.url} cannot be reached{proxy}: {reason}")

    def _problem(self, refusal: _Refusal, attempts: int, *, response_lost: bool) -> ProblemError:
        try:
            problem: object = orjson.loads(refusal.body)
        except orjson.JSONDecodeError:
            problem = None
        fields = problem if isinstance(problem, dict) else {}
        errors = fields.get("errors")
        detail = self._text(fields, "detail")
        if refusal.status < HTTPStatus.BAD_REQUEST and refusal.location is not None:
            # Such as https: for a service whose proxy takes no http:.
            detail = f"it redirects to {self.shown(refusal.location)}"
        return ProblemError(
            self.url,
            refusal.status,
            title=self._text(fields, "title"),
            detail=detail,
            errors=[
                FieldError(*(self._text(each, name) for name in ("in", "field", "detail")))
                for each in (errors if isinstance(errors, list) else [])
                if isinstance(each, dict)
            ],
            request_id=refusal.request_id,
            attempts=attempts,
            response_lost=response_lost,
        )

    def _text(self, fields: Mapping[str, object], name: str) -> str:
        value = fields.get(name)
        return self.shown(value) if isinstance(value, str) else ""


def _check(url: str, token: str) -> None:
    """Raise ValueError for what no request can be sent with; the text has no password or token."""
    parts = URL(url)
    extras = parts.raw_user, parts.raw_password, parts.raw_query_string, parts.raw_fragment
    if parts.scheme not in _SCHEMES or not parts.host or any(extras):
        raise ValueError("the URL must be http or https with a host, without user, query, fragment")
    if not (token and token.isascii() and token.isprintable()):
        raise ValueError("the token must be printable ASCII, because a header carries it")


class _LostConnectionError(aiohttp.ClientConnectionError):
    """The connection of a GET or DELETE broke before the response began."""


async def _send_only_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending the request again, which it does without a pause.

    aiohttp has no option for this. It repeats idempotent methods after certain exceptions only.
    """
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "POST":
            raise
        raise _LostConnectionError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A response that is not a success."""

    status: int
    body: bytes
    request_id: str | None
    retry_after: str | None
    location: str | None


async def _read_refusal(response: aiohttp.ClientResponse, end: float | None = None) -> _Refusal:
    """Read a refusal, of which the body may take until `end` on the clock of the event loop."""
    try:
        async with asyncio.timeout_at(end):
            content = await _read(response, _MAX_PROBLEM_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError):
        # The status decides what to do; the body only explains it.
        content = b""
    return _Refusal(
        response.status,
        content,
        response.headers.get("X-Request-Id"),
        response.headers.get("Retry-After"),
        response.headers.get("Location"),
    )


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read the body; stop after the first chunk that exceeds the limit."""
    chunks = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            break
    return b"".join(chunks)


def _explain(error: Exception) -> str:
    """Return the reason; aiohttp's own text has the address, also of a proxy, and TLS settings."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its TLS certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"TLS failed, does it serve plain HTTP? {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "its response was cut off"
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    return str(error)
