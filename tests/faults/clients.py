"""Clients that keep sending requests during a fault, and check every response.

A response is correct, byte for byte, or it is 503 with `Retry-After`, in time. Nothing else is
allowed.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from yarl import URL

# The time limit of a response, in seconds.
IN_TIME = 2.0
# A machine that is busy with other tests is several times slower than that. Requests that nothing
# limits wait as long as a write does: ten times as long, or longer.
BUSY_FACTOR = 4
BUSY_ROUND_TRIPS = 50
# Clients rest for so many round trips between two requests under load.
REST_ROUND_TRIPS = 5
# No client waits longer than this, however late the response is.
PATIENCE = 60.0


@dataclass(frozen=True)
class Told:
    """One response, and how many seconds it took."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    seconds: float

    @property
    def following(self) -> str | None:
        """The address of the next page."""
        found = re.search(r'<([^<>]*)>; rel="next"', self.headers.get("Link", ""))
        return found and found[1]


@dataclass
class Seen:
    """Responses so far: the count of each status, the slowest, and the outcome of each target."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0
    # The status of the newest response of each target.
    newest: dict[str, int] = field(default_factory=dict)
    # Since `start_over`: targets with a correct response, and the 503 responses before it.
    right: set[str] = field(default_factory=set)
    unavailable: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, target: str, told: Told) -> None:
        self.statuses[told.status] += 1
        self.newest[target] = told.status
        self.slowest = max(self.slowest, told.seconds)
        if told.status == 200:
            self.right.add(target)
        elif target not in self.right:
            self.unavailable[target] += 1
        self.changed.set()

    def start_over(self) -> None:
        self.right.clear()
        self.unavailable.clear()

    async def until_unavailable(self, count: int) -> None:
        """Wait until so many responses were 503."""
        await self._until(lambda: self.statuses[503] >= count)

    async def until_newest(self, target: str, status: int) -> None:
        """Wait until the newest response of this target has this status."""
        await self._until(lambda: self.newest.get(target) == status)

    async def until_right(self, targets: Sequence[str]) -> float:
        """Wait for a correct response from each target; return the seconds this took."""
        began = time.monotonic()
        await self._until(lambda: self.right.issuperset(targets))
        return time.monotonic() - began

    async def _until(self, so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not so():
                self.changed.clear()
                await self.changed.wait()


@dataclass
class Clients:
    """They know the correct response of each page once `learn` has read the pages."""

    base: str
    session: aiohttp.ClientSession
    key: str = field(repr=False)
    first: Sequence[str] = ()
    right: dict[str, bytes] = field(default_factory=dict)
    round_trip: float = 0.0

    @property
    def in_time(self) -> float:
        return BUSY_FACTOR * IN_TIME + BUSY_ROUND_TRIPS * self.round_trip

    async def ask(self, target: str) -> Told:
        url = URL(target if target.startswith("http") else self.base + target, encoded=True)
        began = time.monotonic()
        headers = {"Authorization": f"Bearer {self.key}"}
        async with self.session.get(url, headers=headers) as answer:
            body = await answer.read()
            return Told(answer.status, body, dict(answer.headers), time.monotonic() - began)

    async def learn(self, targets: Sequence[str]) -> None:
        """Record as correct what a healthy service returns for these pages and all that follow."""
        self.first = targets
        took = []
        for first in targets:
            following: str | None = first
            while following is not None:
                told = await self.ask(following)
                assert told.status == 200, told.body
                target = following.removeprefix(self.base)
                self.right[target] = told.body
                following = told.following
        for target, body in self.right.items():
            told = await self.ask(target)
            assert (told.status, told.body) == (200, body)
            took.append(told.seconds)
        self.round_trip = statistics.median(took)

    def know(self, others: Clients) -> None:
        """Take over the correct responses that other clients learned over the same store."""
        self.first, self.right, self.round_trip = others.first, others.right, others.round_trip

    async def check(self, target: str, seen: Seen) -> bool:
        """Request once and check the response; return whether it was the page (not 503)."""
        told = await self.ask(target)
        seen.add(target, told)
        assert told.seconds <= self.in_time, (target, told, self.in_time)
        if told.status == 200:
            assert told.body == self.right[target], target
            return True
        assert told.status == 503, (target, told)
        assert int(told.headers["Retry-After"]) > 0
        assert told.headers["Content-Type"].startswith("application/problem+json")
        problem: dict[str, Any] = orjson.loads(told.body)
        assert problem["status"] == 503
        return False

    async def check_all(self, rounds: int = 1) -> Seen:
        """Request all pages at once, `rounds` times."""
        seen = Seen()
        for _ in range(rounds):
            async with asyncio.TaskGroup() as tasks:
                for target in self.right:
                    tasks.create_task(self.check(target, seen))
        return seen

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[Seen]:
        """Keep requesting the first pages until the block ends."""
        seen = Seen()
        over = asyncio.Event()

        async def go_on(target: str) -> None:
            while not over.is_set():
                await self.check(target, seen)
                # Leave CPU time to the server that recovers.
                await asyncio.sleep(REST_ROUND_TRIPS * self.round_trip)

        async with asyncio.TaskGroup() as tasks:
            for target in self.first:
                tasks.create_task(go_on(target))
            try:
                yield seen
            finally:
                over.set()

    async def until_right(self) -> float:
        """Request until one round is entirely correct; return the seconds this took."""
        began = time.monotonic()
        while True:
            seen = await self.check_all()
            if set(seen.statuses) == {200}:
                return time.monotonic() - began
            assert time.monotonic() - began < PATIENCE, seen
            await asyncio.sleep(self.round_trip)


@asynccontextmanager
async def clients_of(base: str, key: str) -> AsyncIterator[Clients]:
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=PATIENCE), max_field_size=2**16
    ) as session:
        yield Clients(base, session, key)
