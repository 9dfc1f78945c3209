"""Decides whether a token of the code host may read a repository: from the cache, or anew."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from typing import Final

from indexing.clocks import Clock
from indexing.fairness import acquire_within
from indexing.lru import Lru
from indexing.names import RepositoryName
from service.auth.code_host.cache import AccessCache, Names
from service.auth.code_host.client import CodeHostClient
from service.auth.code_host.decisions import (
    UNAVAILABLE_WAIT_SECONDS,
    AccessDecision,
    Finding,
    HostUnavailable,
)
from service.cache.backend import CacheBackend
from service.cache.session import SingleFlight

# Circuit breaker: after this many requests in a row without a response that can be read, none is
# sent for `BREAKER_OPEN_SECONDS`.
MAX_CONSECUTIVE_FAILURES: Final = 3
BREAKER_OPEN_SECONDS: Final = 1.0
# Concurrent requests to the host: hosts want clients not to send many at once. Some slots are
# reserved for tokens that were valid the last time, so that made-up tokens do not block those.
MAX_CONCURRENT_REQUESTS: Final = 16
MAX_CONCURRENT_UNKNOWN: Final = 12
# How long a request may wait for a slot. This does not count as a failure of the host.
SLOT_SECONDS: Final = 0.5
# Requests in progress or waiting for a slot: a third of all that may be in progress
# (`service.middleware.fair_queue`), so that a slow host does not block clients with a key.
MAX_WAITING: Final = 48
MAX_WAITING_UNKNOWN: Final = 36

_LIMITED_BYTES: Final = 4 * 1024 * 1024


class CodeHost:
    """The access checks of one process. Concurrent checks of one token and repository share one."""

    def __init__(
        self,
        client: CodeHostClient,
        names: Names,
        backend: CacheBackend,
        clock: Clock,
    ) -> None:
        self._client = client
        self._names = names
        self._cache = AccessCache(backend)
        self._clock = clock
        self._single_flight = SingleFlight()
        self._waiting = 0
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._slots_for_unknown = asyncio.Semaphore(MAX_CONCURRENT_UNKNOWN)
        self._failures = 0
        self._breaker_open_until = 0.0
        self._limited: Lru[datetime] = Lru(_LIMITED_BYTES)

    @classmethod
    def open(cls, base_url: str, secret: bytes, backend: CacheBackend, clock: Clock) -> CodeHost:
        """Open a client for the API at that URL; the caller has to close it."""
        return cls(CodeHostClient.open(base_url, clock), Names(secret, base_url), backend, clock)

    async def close(self) -> None:
        """Close the connections to the host."""
        await self._client.close()

    def identify(self, token: str) -> str:
        """Return a name for the token that does not reveal it."""
        return self._names.of_token(token)

    async def check(
        self, token: str, repository: RepositoryName
    ) -> AccessDecision | HostUnavailable:
        """Return the decision of the host about this token and repository, cached or new.

        Return `HostUnavailable` if the host does not answer and no cached decision is valid.
        """
        name = self._names.of_pair(token, repository)
        here = self._cache.find_here(name)
        if here is not None and here.is_fresh(self._clock()):
            return here
        return await self._single_flight.share(name, lambda: self._check(token, repository, name))

    async def _check(
        self, token: str, repository: RepositoryName, name: str
    ) -> AccessDecision | HostUnavailable:
        now = self._clock()
        remembered = await self._cache.find(name, now)
        of_token = self._names.of_token(token)
        known = remembered is not None and remembered.finding is Finding.READABLE
        if known:
            # Maybe another process got it.
            self._cache.note_grant(of_token)
        if remembered is not None and remembered.is_fresh(now):
            return remembered
        # A bad token is bad for every repository.
        bad = await self._cache.find(of_token, now)
        if bad is not None and bad.is_fresh(now):
            return bad
        found = self._find_unavailability(of_token, now, known=known) or await self._request(
            token, repository, known=known
        )
        if isinstance(found, Finding):
            decision = AccessDecision(found, now)
            if found is Finding.READABLE:
                self._cache.note_grant(of_token)
            place = of_token if found is Finding.BAD_CREDENTIAL else name
            self._cache.keep(place, decision, known=known)
            return decision
        if found.limited:
            until = now + timedelta(seconds=found.seconds)
            self._limited.keep(of_token, until, 0, time.monotonic() + found.seconds)
        if remembered is not None and remembered.outlasts(now) and not _is_later(bad, remembered):
            return remembered
        return found

    def _find_unavailability(
        self, of_token: str, now: datetime, *, known: bool
    ) -> HostUnavailable | None:
        """Return why no request may be sent to the host now; `None` if one may."""
        until = self._limited.find(of_token)
        if until is not None and until > now:
            return HostUnavailable(max(1, round((until - now).total_seconds())))
        most = MAX_WAITING if known else MAX_WAITING_UNKNOWN
        if self._waiting >= most:
            return self._refuse_for_room()
        if time.monotonic() < self._breaker_open_until:
            return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
        return None

    def _refuse_for_room(self) -> HostUnavailable:
        """Return the refusal of a check that would wait too long for the host."""
        self._client.warn_unavailable("too many requests to it are in progress")
        return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)

    async def _request(
        self, token: str, repository: RepositoryName, *, known: bool
    ) -> Finding | HostUnavailable:
        reserved = () if known else (self._slots_for_unknown,)
        self._waiting += 1
        try:
            async with acquire_within(SLOT_SECONDS, *reserved, self._slots):
                found = await self._client.find(token, repository)
        except TimeoutError:
            return self._refuse_for_room()
        finally:
            self._waiting -= 1
        if found is None:
            self._failures += 1
            if self._failures >= MAX_CONSECUTIVE_FAILURES:
                self._breaker_open_until = time.monotonic() + BREAKER_OPEN_SECONDS
            return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
        self._failures = 0
        return found


def _is_later(one: AccessDecision | None, other: AccessDecision) -> bool:
    return one is not None and one.requested_at >= other.requested_at
