"""Lanes to what many share: of each who asks, only so much is in the common queue at a time.

So a flood waits behind itself, and whoever asks one thing waits behind a little of each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

# For whom the present work is done: set by whoever serves several.
ASKER: Final[ContextVar[Hashable]] = ContextVar("asker", default=None)


class Lanes:
    """The lanes of one event loop, each `width` wide."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lanes: dict[Hashable, asyncio.Semaphore] = {}
        self._users: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return len(self._lanes)

    @asynccontextmanager
    async def take(self, asker: Hashable, *, within: float | None = None) -> AsyncIterator[None]:
        """Wait for room in the lane of that asker, and have it until the context is left.

        Raises:
            TimeoutError: there is none within so many seconds.
        """
        lane = self._lanes.setdefault(asker, asyncio.Semaphore(self._width))
        self._users[asker] += 1
        try:
            async with asyncio.timeout(within):
                await lane.acquire()
            try:
                yield
            finally:
                lane.release()
        finally:
            self._users[asker] -= 1
            if not self._users[asker]:
                del self._users[asker], self._lanes[asker]
