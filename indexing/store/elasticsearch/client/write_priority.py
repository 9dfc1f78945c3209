"""Small writes go first: a large load lets those of other tenants end before it goes on.

A node works at a few requests at a time, so each piece of a large load holds up every small write.
One event loop only; other processes know nothing of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from indexing.fairness import current_tenant

# So many documents, or tests, are a small write.
SMALL_WRITE: Final = 100
# How long one piece of a large load waits at most, so that small writes never stop it.
WAIT_SECONDS: Final = 0.5


class WritePriority:
    """Which tenants have small writes under way."""

    def __init__(self) -> None:
        self._small: Counter[Hashable] = Counter()
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def small_write(self) -> Iterator[None]:
        """Go before the large loads of all other tenants until the context is left."""
        tenant = current_tenant.get()
        self._small[tenant] += 1
        try:
            yield
        finally:
            self._small[tenant] -= 1
            if not self._small[tenant]:
                del self._small[tenant]
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def give_way(self) -> None:
        """Wait for small writes of other tenants, for half a second at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self._small.keys() - {current_tenant.get()}:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiter)
                    try:
                        await waiter
                    finally:
                        self._waiting.discard(waiter)
