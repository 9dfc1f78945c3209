"""The event log as it arrives: server-sent events, resumed after the last one that was received.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from functools import partial
from typing import Final

from aiohttp import web

from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import ArrivalKey
from service.context import CONTEXT, LIFECYCLE, PRINCIPAL, REPOSITORY, find_access_check
from service.handlers.parameters import find_ignored
from service.http import problems
from service.http.raw_response import headers_of
from service.routes import EVENT_STREAM_TYPE, LAST_EVENT_ID, STREAM_EVENTS
from service.streaming import lasting_access
from service.streaming.event_ids import SALT_SIZE
from service.streaming.hub import POLL_SECONDS, ArrivalHub, Subscription
from service.streaming.lasting_access import LastingAccess
from service.streaming.limits import StreamLimit
from service.streaming.response import StreamedResponse

# A stream takes little memory, but every event is sent to every stream.
MAX_STREAMS_PER_PRINCIPAL: Final = 1_000
MAX_STREAMS: Final = 4_000

# How often a comment is sent, so that proxies and clients see that the stream is alive.
COMMENT_SECONDS: Final = 15.0
# How long a client waits before it resumes, in milliseconds.
RETRY_MILLISECONDS: Final = 2_000

_COMMENT: Final = b": \n\n"
_RETRY: Final = f"retry: {RETRY_MILLISECONDS}\n\n".encode()

EVENT_STREAMS: Final = web.AppKey("event_streams", StreamLimit)
ARRIVALS: Final = web.AppKey("arrivals", ArrivalHub)


async def stream_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/repos/{owner}/{repository}/logs/stream."""
    given = _read_last_id(request)
    newest = await request.app[CONTEXT].reader.find_newest_arrival()
    # The store may be a restored backup that is older than the last event.
    position = newest if given is None else min(given, newest)
    owner = request[REPOSITORY].owner
    release = request.app[EVENT_STREAMS].acquire(request[PRINCIPAL].name, owner)
    headers = headers_of(ignored=find_ignored(request))
    headers["Content-Type"] = EVENT_STREAM_TYPE
    # A proxy that buffers responses would never send this one.
    headers["X-Accel-Buffering"] = "no"
    return StreamedResponse(headers, _Stream(request).run(position), release)


def _read_last_id(request: web.Request) -> ArrivalKey | None:
    values = request.headers.getall(LAST_EVENT_ID, ())
    if not values or values == [""]:
        return None
    place = None
    if len(values) == 1:
        repository_id = derive_repository_id(request[REPOSITORY])
        place = request.app[ARRIVALS].ids.read(repository_id, values[0])
    if place is None:
        detail = f"{LAST_EVENT_ID} must be an id from this stream; without it the stream begins now"
        raise problems.malformed(detail)
    return place


class _Stream:
    """One open stream."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._principal = request[PRINCIPAL].name
        self._repository = request[REPOSITORY]
        self._lifecycle = request.app[LIFECYCLE]
        self._hub = request.app[ARRIVALS]
        check = find_access_check(request, STREAM_EVENTS.operation)
        self._access = LastingAccess(partial(check.run, request))

    async def run(self, position: ArrivalKey) -> AsyncGenerator[bytes, None]:
        """Yield the stream's text from that place on, until the process stops or access ends."""
        subscription = Subscription(self._repository, position, self._hub.unsent)
        # With this id, a client can resume even if it has not received an event yet.
        salt = secrets.token_bytes(SALT_SIZE)
        first_id = self._hub.ids.write(subscription.repository_id, position, salt)
        yield b"id: %b\n" % first_id.encode() + _RETRY
        while True:
            text, position, is_all = await self._hub.read_missed(subscription, self._principal)
            if text:
                with subscription.keep(text):
                    yield text
            # A slow client would hold it until the next read.
            del text
            subscription.position = position
            if is_all and self._hub.attach(subscription):
                break
            if not await self._goes_on():
                yield _RETRY
                return
            # The poll may be ahead of what has settled in the store.
            await asyncio.sleep(POLL_SECONDS / 2 if is_all else 0)
        try:
            async for text in self._follow(subscription):
                yield text
        finally:
            self._hub.detach(subscription)
        yield _RETRY

    async def _follow(self, subscription: Subscription) -> AsyncGenerator[bytes, None]:
        sent_at = time.monotonic()
        while await self._goes_on():
            text = await subscription.receive(self._access.seconds_left)
            now = time.monotonic()
            if not text and now - sent_at >= COMMENT_SECONDS - lasting_access.CHECK_SECONDS / 2:
                text = _COMMENT
            if text:
                yield text
                sent_at = now

    async def _goes_on(self) -> bool:
        """Whether the process is not stopping, and the credential still covers the repository."""
        return not self._lifecycle.stopping and await self._access.lasts()
