"""Admission control: every request takes a slot first, and is refused when too many wait.

Each verified credential of the API has a queue of its own, and so has each principal of the
dashboard. All other requests share one.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Hashable
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

from aiohttp import web
from aiohttp.web import BaseRequest, RequestKey, StreamResponse
from multidict import CIMultiDict

from indexing.fairness import current_tenant
from indexing.lru import Lru
from service.http import problem_pages, problems
from service.http.known_fields import KNOWN_FIELDS, KnownFields
from service.http.methods import READS
from service.http.raw_response import RawResponse, takes_raw_response, write_head
from service.http.response_headers import RESPONSE_HEADERS
from service.http.sender import SENDER
from service.http.session_cookie import read_session_cookies
from service.http.targets import MONITORING, SHORT_TARGET, UI_PREFIX, is_too_long
from service.middleware.fair_queue import FairQueue, OverloadedError
from service.middleware.layer import Handler

T = TypeVar("T")

OVERLOAD_WAIT_SECONDS: Final = 1
_STATUS: Final = HTTPStatus.SERVICE_UNAVAILABLE

# How long a verified credential has a queue of its own; at most 8,000 credentials have one. A use
# extends it, but at most once a minute, because that costs more than to look it up.
VERIFIED_SECONDS: Final = 3_600.0
_EXTENDED_EVERY: Final = 60.0
_VERIFIED_MAX_BYTES: Final = 16 * 1024 * 1024
# The queue of all others: a client that makes up credentials gains nothing by making up more.
_UNVERIFIED: Final = "unverified"


class _Slot:
    """The slot of a request with a body; it may be released before the response.

    With `is_kept`, the work on the request releases it, which may outlast a client that leaves.
    """

    __slots__ = ("_is_held", "_queue", "is_kept", "tenant")

    def __init__(self, queue: FairQueue, tenant: Hashable) -> None:
        self._queue = queue
        self._is_held = True
        self.is_kept = False
        self.tenant = tenant

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._queue.release(self.tenant)

    async def take(self) -> None:
        """Wait for the slot again, if it was released."""
        if not self._is_held:
            if not self._queue.try_acquire(self.tenant):
                await self._queue.acquire(self.tenant)
            self._is_held = True

    async def keep(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work, and release the slot at its end."""
        try:
            return await work
        finally:
            self.release()


_SLOT: Final = RequestKey("slot", _Slot)


class _Verified(NamedTuple):
    """In whose queue the requests of a credential wait, and when this was noted."""

    tenant: int
    noted: float


class AdmissionControl:
    """The admission control of one process."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        # By a hash of the credential.
        self._verified: Lru[_Verified] = Lru(_VERIFIED_MAX_BYTES)
        # Encoded once: refusals are sent when the process has the least time.
        problem = self._overload = _make_overload()
        self._body = problems.body(problem)
        headers = CIMultiDict(problems.response(problem).headers)
        headers.extend(RESPONSE_HEADERS)
        self._head = write_head(headers, len(self._body), _STATUS)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler, so that requests reach it in fair order."""
        queue = self.queue

        async def answer(request: BaseRequest) -> StreamResponse:
            target = request.raw_path
            # Before the target is decoded, parsed or hashed.
            if len(target) > SHORT_TARGET and is_too_long(target):
                return problem_pages.respond(request, problems.target_too_long())
            # Monitoring is always answered. An allow-list: a target can be written in many ways.
            if target in MONITORING:
                return await handler(request)
            tenant = self._find_tenant(request)
            if not queue.try_acquire(tenant):
                try:
                    await queue.acquire(tenant)
                except OverloadedError:
                    return self._refuse_overload(request)
            # Queues further inside are per tenant too.
            current_tenant.set(tenant)
            if request.method in READS:
                # Reads are the most frequent, so no slot object is made for them.
                try:
                    return await handler(request)
                finally:
                    queue.release(tenant)
            slot = request[_SLOT] = _Slot(queue, tenant)
            request[SENDER] = _hash_credential(request)
            try:
                return await handler(request)
            finally:
                if not slot.is_kept:
                    slot.release()

        return answer

    def keep_slot(
        self, request: BaseRequest, work: Coroutine[Any, Any, T]
    ) -> Coroutine[Any, Any, T]:
        """Return the work with the slot of its request, which it keeps to its end.

        Otherwise clients that leave at once could start any number of works.
        """
        slot: _Slot | None = request.get(_SLOT)
        if slot is None:
            return work
        slot.is_kept = True
        return slot.keep(work)

    def release_slot(self, request: BaseRequest) -> None:
        """Release the slot of a request with a body, once it is known to be allowed.

        Its body has limits of its own (`service.ingest.limiter`), and takes as long as the client
        takes to send it.
        """
        slot = request.get(_SLOT)
        if slot is not None:
            slot.release()

    async def take_slot(self, request: BaseRequest) -> None:
        """Wait again for a slot that was released.

        Raises:
            Problem: 503 if too many requests wait.
        """
        slot = request.get(_SLOT)
        if slot is not None:
            try:
                await slot.take()
            except OverloadedError:
                # A new one each time: an exception keeps the frames that it was raised through.
                raise _make_overload() from None

    def add_verified(self, request: BaseRequest) -> None:
        """Give a queue of its own to a credential of the API that was verified."""
        credential = _read_authorization(request)
        # Without one, a dashboard page sent the request within the process. The page has its queue.
        if credential:
            self._note(hash(credential), hash(credential))

    def add_session(self, request: BaseRequest, principal: str) -> None:
        """Let the requests of a session of the dashboard wait in the queue of its principal.

        All sessions of a principal share that queue, because anybody who can begin one session can
        begin many.
        """
        self._note(hash(_read_cookies(request)), hash(principal))

    def _note(self, credential: int, tenant: int) -> None:
        # The first request of a credential waited in the queue of all that are not verified.
        current_tenant.set(tenant)
        verified, now = self._verified.find(credential), time.monotonic()
        if verified is None or now - verified.noted > _EXTENDED_EVERY:
            self._verified.keep(credential, _Verified(tenant, now), 0, now + VERIFIED_SECONDS)

    def _find_tenant(self, request: BaseRequest) -> Hashable:
        """Return the tenant in whose queue the request waits."""
        known: KnownFields | None = request.get(KNOWN_FIELDS)
        if known is not None:
            return known.tenant
        verified = self._verified.find(_hash_credential(request))
        return _UNVERIFIED if verified is None else verified.tenant

    def _refuse_overload(self, request: BaseRequest) -> StreamResponse:
        if takes_raw_response(request) and not request.raw_path.startswith(UI_PREFIX):
            return RawResponse(self._head, self._body, _STATUS)
        return problem_pages.respond(request, self._overload)


def _make_overload() -> problems.Problem:
    return problems.unavailable("server overloaded, retry later", OVERLOAD_WAIT_SECONDS)


def has_own_queue(tenant: Hashable) -> bool:
    """Whether the tenant is not the one that all unverified requests share."""
    return tenant != _UNVERIFIED


ADMISSION_CONTROL: Final = web.AppKey("admission_control", AdmissionControl)


def _hash_credential(request: BaseRequest) -> int:
    """Return a hash that identifies the credential within this process, valid or not.

    The credential cannot be recovered from it.
    """
    return hash(_read_credential(request))


def _read_credential(request: BaseRequest) -> str:
    # Cookies are credentials of the dashboard alone: the API does not look at them. A page whose
    # path is spelled in another way waits in the shared queue.
    if request.raw_path.startswith(UI_PREFIX):
        return _read_cookies(request)
    return _read_authorization(request)


def _read_cookies(request: BaseRequest) -> str:
    # All of them: which one holds the session is not known here.
    return " ".join(read_session_cookies(request))


def _read_authorization(request: BaseRequest) -> str:
    return request.headers.get("Authorization", "").rstrip(" ").rpartition(" ")[2]
