"""Lanes to what many share: of each who asks, only so much is in the common queue at a time.

So a flood waits behind itself, and whoever asks one thing waits behind a little of each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
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
    async def take(self, asker: Hashable) -> AsyncIterator[None]:
        """Wait for room in the lane of that asker, and have it until the context is left."""
        lane = self._lanes.setdefault(asker, asyncio.Semaphore(self._width))
        self._users[asker] += 1
        try:
            async with lane:
                yield
        finally:
            self._users[asker] -= 1
            if not self._users[asker]:
                del self._users[asker], self._lanes[asker]


@asynccontextmanager
async def take_within(
    seconds: float, *rooms: AbstractAsyncContextManager[None]
) -> AsyncIterator[None]:
    """Wait for room in each of these in turn, and have it all until the context is left.

    Raises:
        TimeoutError: that takes longer than so many seconds.
    """
    async with AsyncExitStack() as taken:
        async with asyncio.timeout(seconds):
            for room in rooms:
                await taken.enter_async_context(room)
        yield
