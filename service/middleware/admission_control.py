"""What every request comes through first: its turn, and what is said of refusals and limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import ExitStack
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.web import BaseRequest, RequestKey, StreamResponse
from multidict import CIMultiDict

from indexing.lanes import ASKER
from service.cache.lru import Lru
from service.http import problems
from service.http.credentials import hash_credential
from service.http.methods import READS
from service.http.problems import Problem
from service.http.raw_response import RawResponse, takes_raw_response, write_head
from service.http.request_id import REQUEST_ID_HEADER, choose_request_id
from service.http.response_headers import RESPONSE_HEADERS
from service.http.targets import is_too_long
from service.middleware.fair_queue import FairQueue, OverloadedError

Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]

# Whatever watches the process is answered in any case.
_UNGUARDED: Final = frozenset({"/health/live", "/health/ready", "/metrics"})
# Where a request keeps its turn.
_SLOT: Final = RequestKey("turn", ExitStack)
OVERLOAD_WAIT_SECONDS: Final = 1
_STATUS: Final = HTTPStatus.SERVICE_UNAVAILABLE

# For how long a credential that was good has a queue of its own, and 8,000 of them at most.
VERIFIED_SECONDS: Final = 3_600.0
_VERIFIED_MAX_BYTES: Final = 16 * 1024 * 1024
# All the others share one: whoever makes credentials up gets no more turns by making up more.
_UNVERIFIED: Final = "strangers"


class AdmissionControl:
    """The gate of one process."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        self._verified: Lru[int] = Lru(_VERIFIED_MAX_BYTES)
        # There are the most of these when there is the least time for them: it is written once.
        problem = problems.unavailable(
            "more is asked than can be answered just now", OVERLOAD_WAIT_SECONDS
        )
        self._overload = problem
        self._body = problems.body(problem)
        headers = CIMultiDict(problems.response(problem).headers)
        headers.extend(RESPONSE_HEADERS)
        self._head = write_head(headers, len(self._body), _STATUS)

    def before(self, handler: Handler) -> Handler:
        """What lets requests through to the handler in turn."""
        queue = self.queue

        async def answer(request: BaseRequest) -> StreamResponse:
            # Before the target is decoded, taken apart or hashed.
            if is_too_long(request.raw_path):
                return _refuse(request, problems.target_too_long())
            # By what is open, not by what is guarded: the same target can be written in many ways.
            if request.raw_path in _UNGUARDED:
                return await self._answer(handler, request)
            tenant = self._find_tenant(request)
            if not queue.try_acquire(tenant):
                try:
                    await queue.acquire(tenant)
                except OverloadedError:
                    return self._refuse_overload(request)
            # What has to wait inside waits behind its own as well.
            ASKER.set(tenant)
            with ExitStack() as slot:
                slot.callback(queue.release, tenant)
                if request.method not in READS:
                    request[_SLOT] = slot
                return await self._answer(handler, request)

        return answer

    def release_slot(self, request: BaseRequest) -> None:
        """End the turn of a request that sends something, once it is known that it may.

        What it sends has bounds of its own (`service.ingest.limiter`), and takes as long as its
        sender.
        """
        slot = request.get(_SLOT)
        if slot is not None:
            slot.close()

    def add_verified(self, request: BaseRequest) -> None:
        """Give a queue of its own to a credential that was found good."""
        tenant = hash_credential(request.headers)
        self._verified.keep(tenant, tenant, 0, time.monotonic() + VERIFIED_SECONDS)

    def _find_tenant(self, request: BaseRequest) -> Hashable:
        """Whose turn it takes."""
        tenant = hash_credential(request.headers)
        return _UNVERIFIED if self._verified.find(tenant) is None else tenant

    async def _answer(self, handler: Handler, request: BaseRequest) -> StreamResponse:
        try:
            return await handler(request)
        except Problem as problem:
            return _refuse(request, problem)

    def _refuse_overload(self, request: BaseRequest) -> StreamResponse:
        if not takes_raw_response(request):
            return _refuse(request, self._overload)
        return _marked(request, RawResponse(self._head, self._body, _STATUS))


ADMISSION_CONTROL: Final = web.AppKey("admission_control", AdmissionControl)


def _refuse(request: BaseRequest, problem: Problem) -> StreamResponse:
    return _marked(request, problems.response(problem))


def _marked(request: BaseRequest, response: StreamResponse) -> StreamResponse:
    response.headers[REQUEST_ID_HEADER] = choose_request_id(request.headers)
    return response
