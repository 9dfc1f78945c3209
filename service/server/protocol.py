"""One HTTP connection: aiohttp's own, with problem bodies and limits on slow clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web import BaseRequest, Response, Server, StreamResponse

from service.context import Lifecycle
from service.http import problems
from service.http.raw_response import BatchedWrites, RawResponse, is_long
from service.http.response_headers import RESPONSE_HEADERS, SENTINEL_HEADER
from service.http.targets import MAX_PARSED_BYTES
from service.http.unparsed import DirectReads, RepeatedRequests
from service.middleware.errors import add_request_id
from service.middleware.layer import Handler
from service.server.gradual_parsing import GradualParsing
from service.server.unsent_bodies import UnsentBodies

# How long the head of a request may take, from its first byte or from the start of the connection:
# clients that send a byte a minute could otherwise hold all connections.
HEAD_SECONDS: Final = 10.0
# How long a response may wait for its client to read more of it: a page of 200 KB takes this long
# at about 30 kilobits a second.
SEND_SECONDS: Final = 60.0
# How much the client has to read in that time: a long response may take longer as a whole.
SEND_MIN_BYTES: Final = 200_000

# How long, and how much, a client may go on sending after its request was refused. A connection
# that is closed while data arrives is reset, and the client may never see why it was refused.
REFUSED_SECONDS: Final = 2.0
REFUSED_MAX_BYTES: Final = 4 * 1024 * 1024

# How much is kept of what arrives during a direct read, before no more is received.
MAX_WAITING_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Connection(GradualParsing):
    """aiohttp's own connection, with problem bodies in place of plain text.

    It is aborted when the client takes too long to send a request or to read the response.
    """

    __slots__ = (
        "_batched_writes",
        "_direct",
        "_head",
        "_held",
        "_is_between",
        "_lifecycle",
        "_limit",
        "_reading",
        "_refused_bytes",
        "_repeated",
        "_target",
        "_unsent",
        "_unsent_bodies",
        "_waiting",
        "_wire",
    )

    def __init__(
        self,
        manager: Server,
        lifecycle: Lifecycle,
        writes: BatchedWrites,
        unsent_bodies: UnsentBodies,
        repeated: RepeatedRequests | None = None,
        direct: DirectReads[Any] | None = None,
        *,
        loop: asyncio.AbstractEventLoop,
        **options: Any,
    ) -> None:
        super().__init__(manager, loop=loop, **options)
        self._lifecycle = lifecycle
        self._repeated = repeated
        self._batched_writes = writes
        self._unsent_bodies = unsent_bodies
        self._direct = direct
        # The target of the current request, if it was parsed and the next one may be direct.
        self._target: Any = None
        # The direct read in progress, and what arrived meanwhile.
        self._reading: asyncio.Task[None] | None = None
        self._waiting = b""
        # A whole response that is written at the end of the iteration of the event loop.
        self._held: bytes | None = None
        # The digest of the current request's head, if it arrived whole, alone, and while no other
        # request was in progress.
        self._head: bytes | None = None
        # Whether the next data may begin a new head.
        self._is_between = True
        self._limit: asyncio.TimerHandle | None = None
        # aiohttp drops its own reference when it begins to close, which a slow client can delay.
        self._wire: asyncio.Transport | None = None
        self._unsent = 0
        # How many bytes arrived after a request that could not be parsed.
        self._refused_bytes: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wire = self.transport
        self._limit_to(HEAD_SECONDS)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._lift_limit()
        if self._reading is not None:
            self._reading.cancel()
        self._wire = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._reading is not None:
            self._hold_back(data)
            return
        if not self._takes_fast_path(data):
            self._parse_in_turns(data)

    def _parse(self, data: bytes) -> None:
        if self._refused_bytes is not None:
            self._refused_bytes += len(data)
            if self._refused_bytes > REFUSED_MAX_BYTES and self._wire is not None:
                self._wire.abort()
            return
        # A body may end like this, too. But this counts only while the connection waits for a
        # request, when the last data was no part of a body.
        self._is_between = data.endswith(b"\r\n\r\n")
        super()._parse(data)
        waiter = self._waiter
        if waiter is None or waiter.done():
            # A whole head has arrived. But without a waiter, aiohttp may not have begun to wait for
            # the first one: before Python 3.12, it begins after the data that arrives at once.
            has_head = waiter is not None or self._messages or self._request_in_progress
            if self._limit is not None and not self._paused and has_head:
                self._lift_limit()
        elif self._limit is None:
            self._limit_to(HEAD_SECONDS)

    def _takes_fast_path(self, data: bytes) -> bool:
        """Answer a request that need not be parsed, or begin to; return whether it is one."""
        if not self._waits_for_request():
            return False
        self._head = self._target = None
        if not self._is_between:
            return False
        if self._repeated is not None:
            self._head = self._repeated.digest(data)
            if self._head is not None and self._answer_repeated(self._repeated, self._head):
                return True
        if self._direct is not None:
            self._target = self._direct.read_target(data)
            if self._target is not None and self._read(self._direct, self._target):
                # There is nothing to learn from it.
                self._target = None
                return True
        return False

    def _waits_for_request(self) -> bool:
        """Whether no request is in progress: its head is not that of the next one."""
        waiter = self._waiter
        return waiter is not None and not waiter.done()

    def _answer_repeated(self, repeated: RepeatedRequests, head: bytes) -> bool:
        """Answer a known head at once, if the connection can send it."""
        if self._wire is None or not self._can_send():
            return False
        answer = repeated.answer(head)
        if answer is None:
            return False
        self._lift_limit()
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        self._write_held()
        # At once: it shall not wait for the requests that take longer.
        self._wire.write(answer)
        return True

    def _can_send(self) -> bool:
        """Whether a response can be sent at once, and another request may follow."""
        return not (
            self._paused
            or self._wire is None
            or self._wire.is_closing()
            or self._lifecycle.stopping
        )

    def _read(self, direct: DirectReads[T], target: T) -> bool:
        """Begin a read whose fields are known; return whether they are."""
        factory, handler, task = self._request_factory, self._request_handler, self._task_handler
        if factory is None or handler is None or task is None or not self._can_send():
            return False
        request = direct.open(
            target,
            lambda message: factory(
                message, EMPTY_PAYLOAD, self, StreamWriter(self, self._loop), task
            ),
        )
        if request is None:
            return False
        self._lift_limit()
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        # A shutdown waits for it.
        self._request_in_progress = True
        self._reading = self._loop.create_task(self._answer(request, handler))
        return True

    async def _answer(self, request: BaseRequest, handler: Handler) -> None:
        """Answer a direct read, and go on with what has arrived meanwhile."""
        stays = False
        try:
            response, is_lost = await self.finish_response(request, await handler(request), None)
            stays = bool(response.keep_alive) and not is_lost
        except ConnectionError:
            _log.debug("the client has closed its connection")
        except Exception:  # noqa: BLE001 - like aiohttp, which answers all other requests
            _log.exception("unhandled error")
        finally:
            self._reading = None
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
        if not stays or self._close or self._force_close:
            self.force_close()
            return
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        if self._waiting and self._wire is not None and not self._wire.is_closing():
            # The next response comes after this one.
            self._write_held()
            data, self._waiting = self._waiting, b""
            self._wire.resume_reading()
            # Not the fast path: its check of the versions serves all requests that arrive before
            # the next iteration of the event loop, and one may be sent after this callback.
            self._parse_in_turns(data)

    def _hold_back(self, data: bytes) -> None:
        """Keep what arrives during a direct read."""
        self._waiting += data
        if len(self._waiting) > MAX_WAITING_BYTES and self._wire is not None:
            self._wire.pause_reading()

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's
        """End as aiohttp does, but in `timeout` seconds: it waits twice for an unsent response."""
        end = None if timeout is None else self._loop.call_later(timeout, self._cancel)
        try:
            await super().shutdown(timeout)
        finally:
            if end is not None:
                end.cancel()

    def _cancel(self) -> None:
        """Cancel what is in progress; a stream then resets the connection, to look incomplete."""
        for task in (self._reading, self._task_handler):
            if task is not None:
                task.cancel()

    def _process_keepalive(self) -> None:
        if self._reading is None:
            super()._process_keepalive()
        else:
            # aiohttp takes the connection for idle.
            again = self._loop.time() + self.keepalive_timeout
            self._keepalive_handle = self._loop.call_at(again, self._process_keepalive)

    async def start(self) -> None:
        try:
            await super().start()
        finally:
            self.force_close()  # aiohttp alone would close without a time limit for what is unsent

    def force_close(self) -> None:
        self._write_held()
        # Closing waits for the client to read the rest.
        if self._limit is None and self._wire is not None and self._wire.get_write_buffer_size():
            self._limit_to(SEND_SECONDS)
        super().force_close()

    def _write_later(self, text: bytes) -> None:
        """Write a whole response at the end of the iteration, if no request waits for it."""
        self._write_held()
        self._held = text
        if self._messages:
            self._write_held()
        else:
            self._batched_writes.add(self._write_held)

    def _write_held(self) -> None:
        text, self._held = self._held, None
        if text is not None and self._wire is not None and not self._wire.is_closing():
            self._wire.write(text)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = 0 if self._wire is None else self._wire.get_write_buffer_size()
        self._limit_to(SEND_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._lift_limit()

    def _limit_to(self, seconds: float) -> None:
        self._lift_limit()
        self._limit = self._loop.call_later(seconds, self._cut_off)

    def _lift_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _cut_off(self) -> None:
        self._limit = None
        if self._paused and self._wire is not None:
            left = self._wire.get_write_buffer_size()
            if left + SEND_MIN_BYTES <= self._unsent:
                self._unsent = left
                self._limit_to(SEND_SECONDS)
                return
        # Aborted, not closed: closing would wait for the client to read the rest.
        if self._wire is not None:
            self._wire.abort()

    def _make_error_handler(self, err_info: Any) -> Handler:
        """Return the handler of a request that could not be parsed, which no other layer sees."""
        return add_request_id(super()._make_error_handler(err_info))

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the request
    ) -> StreamResponse:
        """Answer a request that could not be parsed, or whose handler failed; then close."""
        if status < 500:
            self._refused_bytes = 0
            # The error contains the limit that was exceeded; header fields have a different one.
            if isinstance(exc, LineTooLong) and exc.args[1] == MAX_PARSED_BYTES:
                status = HTTPStatus.REQUEST_URI_TOO_LONG
            # Anybody can cause these: no log line at the usual levels.
            _log.debug("malformed request", extra={"reason": type(exc).__name__})
        else:
            _log.error("unhandled error", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already begun")
        response = problems.response(problems.generic(status))
        response.force_close()
        return response

    def finish_response(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[StreamResponse, bool]]:
        """Send the response, with the headers that every response has."""
        # Cached responses are the most frequent, and have their headers already.
        if type(resp) is RawResponse:
            resp.write_later = self._write_later
        elif SENTINEL_HEADER not in resp.headers:
            resp.headers.update(RESPONSE_HEADERS)
        head, self._head = self._head, None
        target, self._target = self._target, None
        if self._lifecycle.stopping:
            # The client is told not to reuse the connection.
            resp.force_close()
        else:
            if self._repeated is not None and head is not None:
                self._repeated.learn(head, request, resp)
            if self._direct is not None and target is not None:
                self._direct.learn(target, request, resp)
        if self._refused_bytes is not None:
            return self._finish_refusal(request, resp, start_time)
        # A stream writes no faster than its client reads, and gives its place back once it is sent.
        if isinstance(resp, (RawResponse, Response)) and (self._paused or is_long(resp)):
            return self._finish_later(request, resp, start_time)
        return super().finish_response(request, resp, start_time)

    async def _finish_later(
        self, request: BaseRequest, resp: RawResponse | Response, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        """Send a response that is long, or that waits for a slow client; it counts as unsent."""
        with self._unsent_bodies.admit(request, resp) as admitted:
            self._write_held()
            await self._drain_helper()
            return await super().finish_response(request, admitted, start_time)

    async def _finish_refusal(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        """Send the last response of a connection, and let the client finish sending."""
        finished = await super().finish_response(request, resp, start_time)
        if self._wire is not None and not self._wire.is_closing():
            self._wire.write_eof()
            # Cancelled when the client closes the connection.
            await asyncio.sleep(REFUSED_SECONDS)
        return finished
