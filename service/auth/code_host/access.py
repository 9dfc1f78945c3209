"""Whether a token of the host opens a repository: what is remembered, or what the host says now."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from indexing.lanes import take_within
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
from service.cache.lru import Lru
from service.cache.single_flight import SingleFlight

# RFC 6750, section 2.1; far longer than those of any host, and no longer than a header may be.
TOKEN_MAX_LENGTH: Final = 4_096
_TOKEN: Final = re.compile(rf"[A-Za-z0-9\-._~+/]{{1,{TOKEN_MAX_LENGTH}}}=*")

# After so many silences in a row nobody waits for the next one.
MAX_SILENCES: Final = 3
REST_SECONDS: Final = 1.0
# Questions that the host is asked at a time. Hosts ask that they come one after the other rather
# than all at once. Some are for tokens that were good the last time: whoever makes tokens up takes
# no more than the others.
MAX_ASKED: Final = 16
MAX_ASKED_OF_UNKNOWN: Final = 12
# How long a question may wait for its turn. That is no silence of the host's.
SLOT_SECONDS: Final = 0.5
# Questions that are asked or wait for it: a third of what may be under way
# (`service.middleware.fair_queue`), so that a host that is slow does not take the service from
# those who have a key.
MAX_WAITING: Final = 48
MAX_WAITING_OF_UNKNOWN: Final = 36

_LIMITED_BYTES: Final = 4 * 1024 * 1024


def is_token(text: str) -> bool:
    """Whether the text has the form of a token that a host may have issued."""
    return len(text) <= TOKEN_MAX_LENGTH and _TOKEN.fullmatch(text) is not None


class CodeHost:
    """The checks of one process, one at a time for each token and repository."""

    def __init__(
        self,
        client: CodeHostClient,
        names: Names,
        backend: CacheBackend,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._names = names
        self._cache = AccessCache(backend)
        self._clock = clock
        self._single_flight = SingleFlight()
        self._waiting = 0
        self._slots = asyncio.Semaphore(MAX_ASKED)
        self._slots_of_unknown = asyncio.Semaphore(MAX_ASKED_OF_UNKNOWN)
        self._silences = 0
        self._rests_until = 0.0
        self._limited: Lru[datetime] = Lru(_LIMITED_BYTES)

    @classmethod
    def open(
        cls, base_url: str, secret: bytes, backend: CacheBackend, clock: Callable[[], datetime]
    ) -> CodeHost:
        """Ready to ask the API at that URL; to be closed."""
        return cls(CodeHostClient.open(base_url, clock), Names(secret, base_url), backend, clock)

    async def close(self) -> None:
        """Let go of the connections to the host."""
        await self._client.close()

    def identify(self, token: str) -> str:
        """What stands for the token where callers are told apart."""
        return self._names.of_token(token)

    async def check(
        self, token: str, repository: RepositoryName
    ) -> AccessDecision | HostUnavailable:
        """What the host says of the repository to the holder of the token, or said lately.

        Gives `HostUnavailable` where it says nothing and nothing is remembered that still counts.
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
        if remembered is not None and remembered.is_fresh(now):
            return remembered
        # A token that is bad is bad for every repository.
        of_token = self._names.of_token(token)
        bad = await self._cache.find(of_token, now)
        if bad is not None and bad.is_fresh(now):
            return bad
        known = remembered is not None and remembered.finding is Finding.READABLE
        found = self._find_unavailability(of_token, now, known=known) or await self._ask(
            token, repository, known=known
        )
        if isinstance(found, Finding):
            decision = AccessDecision(found, now)
            self._cache.keep(of_token if found is Finding.BAD_CREDENTIAL else name, decision)
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
        """What is known without asking: the token's limit was met, or the host is silent."""
        until = self._limited.find(of_token)
        if until is not None and until > now:
            return HostUnavailable(max(1, round((until - now).total_seconds())))
        most = MAX_WAITING if known else MAX_WAITING_OF_UNKNOWN
        if self._waiting >= most or time.monotonic() < self._rests_until:
            return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
        return None

    async def _ask(
        self, token: str, repository: RepositoryName, *, known: bool
    ) -> Finding | HostUnavailable:
        reserved = () if known else (self._slots_of_unknown,)
        self._waiting += 1
        try:
            async with take_within(SLOT_SECONDS, *reserved, self._slots):
                found = await self._client.find(token, repository)
        except TimeoutError:
            return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
        finally:
            self._waiting -= 1
        if found is None:
            self._silences += 1
            if self._silences >= MAX_SILENCES:
                self._rests_until = time.monotonic() + REST_SECONDS
            return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
        self._silences = 0
        return found


def _is_later(one: AccessDecision | None, other: AccessDecision) -> bool:
    return one is not None and one.asked_at >= other.asked_at
