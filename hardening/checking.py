"""Clients that know the right responses and count every wrong one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count

from hardening.raw_http import NoResponseError, RawConnection, Response

# How often learning retries while the service is not warm yet.
_TRIES = 100
# How long a service may take to be right again.
_PATIENCE_SECONDS = 60.0


@dataclass
class Tally:
    """The outcomes of requests over a period."""

    statuses: Counter[int] = field(default_factory=Counter)
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    unanswered: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.statuses.total() + self.unanswered

    @property
    def failed(self) -> int:
        """Return the number of requests without a right answer."""
        return self.requests - self.right

    @property
    def slowest(self) -> float:
        return max(self.seconds, default=0.0)


@dataclass
class ResponseChecker:
    """The clients of one service. They record the right responses while the service is healthy."""

    port: int
    key: str = field(repr=False)
    right: dict[str, bytes] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    async def learn(self, targets: Sequence[str]) -> None:
        """Record the current answers as the right ones."""
        connection = RawConnection(self.port)
        for target in targets:
            for _ in range(_TRIES):
                response = await connection.request(target, self.key)
                if response.status == HTTPStatus.OK:
                    break
            self.right[target] = response.body
        connection.abort()

    async def check(
        self, connection: RawConnection, target: str, expected: bytes | None = None
    ) -> Response | None:
        """Send one request and count its outcome."""
        tally = self.tally
        expected = self.right[target] if expected is None else expected
        try:
            response = await connection.request(target, self.key)
        except (NoResponseError, OSError):
            tally.unanswered += 1
            return None
        tally.statuses[response.status] += 1
        tally.seconds.append(response.seconds)
        if response.status == HTTPStatus.OK:
            if response.body == expected:
                tally.right += 1
            else:
                tally.wrong.append(f"another body for {target}")
        elif response.status != HTTPStatus.SERVICE_UNAVAILABLE or not response.header(
            "retry-after"
        ):
            tally.wrong.append(f"{response.status} for {target}: {response.body[:120]!r}")
        return response

    @asynccontextmanager
    async def under_load(
        self, clients: int, *, pause: float = 0.0, variants: bool = False
    ) -> AsyncIterator[Tally]:
        """Send requests until the context exits; `variants` makes each request a new one."""
        over = asyncio.Event()
        numbers = count()

        async def send_requests(client: int) -> None:
            connection = RawConnection(self.port)
            targets = list(self.right)
            for number in count(client):
                if over.is_set():
                    break
                target = targets[number % len(targets)]
                unseen = vary(target, next(numbers)) if variants else target
                await self.check(connection, unseen, self.right[target])
                if pause:
                    await asyncio.sleep(pause)
            connection.abort()

        async with asyncio.TaskGroup() as group:
            for client in range(clients):
                group.create_task(send_requests(client))
            try:
                yield self.tally
            finally:
                over.set()

    async def until_right(self, targets: Sequence[str]) -> float:
        """Retry until all targets are answered right in one pass; return the seconds it took."""
        began = time.monotonic()
        connection = RawConnection(self.port)
        while time.monotonic() - began < _PATIENCE_SECONDS:
            responses = [await self.check(connection, target) for target in targets]
            if all(each is not None and each.status == HTTPStatus.OK for each in responses):
                break
        connection.abort()
        return time.monotonic() - began


def vary(target: str, number: int) -> str:
    """Return a new request with the same answer."""
    # Add a name that no test has, or an unknown parameter.
    name = "test_name" if "test_name=" in target else "unseen"
    return f"{target}{'&' if '?' in target else '?'}{name}=unseen-{number}"
