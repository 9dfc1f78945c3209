"""Priority for small writes: a large load pauses for the small writes of other tenants.

A node executes few requests at a time, so each piece of a large load delays every small write. This
works on one event loop only; other processes are not coordinated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from indexing.fairness import current_tenant

# A write of at most this many documents or tests is small.
SMALL_WRITE: Final = 100
# The longest wait of one piece of a large load, so that small writes cannot starve it.
WAIT_SECONDS: Final = 0.5


class WritePriority:
    """Tracks which tenants have small writes in progress."""

    def __init__(self) -> None:
        self._small: Counter[Hashable] = Counter()
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def small_write(self) -> Iterator[None]:
        """Take priority over large loads of all other tenants inside the context."""
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
        """Wait until other tenants have no small write in progress, for half a second at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self._small.keys() - {current_tenant.get()}:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiter)
                    try:
                        await waiter
                    finally:
                        self._waiting.discard(waiter)
