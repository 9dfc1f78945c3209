"""One HTTP connection: what aiohttp answers before or beside the application, as problems too."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.web import BaseRequest, HTTPException, RequestHandler, StreamResponse

from service import problems
from service.request_ids import REQUEST_ID_HEADER, choose_request_id

# How many connections wait to be accepted: a burst of CI jobs that start together.
BACKLOG: Final = 1024

_log = structlog.get_logger(__name__)


class Connection(RequestHandler):
    """aiohttp's own connection, with problem bodies in place of plain text."""

    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes what was sent
    ) -> StreamResponse:
        """Answer a request that could not be read, or whose handling broke; then close."""
        current = choose_request_id(None)
        if status < 500:
            # Strangers send what they like: no line at the usual levels for each of them.
            _log.debug("unreadable request", reason=type(exc).__name__, request_id=current)
        else:
            _log.error("unforeseen error", exc_info=exc, request_id=current)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun: there is no room for another")
        response = problems.response(problems.generic(status))
        response.headers[REQUEST_ID_HEADER] = current
        response.force_close()
        return response

    def finish_response(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[StreamResponse, bool]]:
        """Send the response; an error page that no middleware saw becomes a problem first."""
        if isinstance(resp, HTTPException):
            resp = problems.response(problems.from_http_exception(resp))
            resp.headers[REQUEST_ID_HEADER] = choose_request_id(
                request.headers.get(REQUEST_ID_HEADER)
            )
        return super().finish_response(request, resp, start_time)


class Site(web.BaseSite):
    """A bound socket whose connections are `Connection`s, made with the keywords in `limits`."""

    __slots__ = ("_limits", "_socket")

    def __init__(
        self, runner: web.AppRunner, listener: socket.socket, limits: Mapping[str, Any]
    ) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._socket = listener
        self._limits = dict(limits)

    @property
    def name(self) -> str:
        return http_url(self._socket)

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner was not set up")
        self._server = await loop.create_server(
            lambda: Connection(server, loop=loop, **self._limits),
            sock=self._socket,
            backlog=BACKLOG,
        )


def http_url(listener: socket.socket) -> str:
    """The address of a bound socket, as a client would write it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
