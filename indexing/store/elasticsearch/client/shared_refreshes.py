"""Refreshes that callers share: each costs an index a segment, however many wait for it.

One event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SharedRefreshes:
    """At most one refresh of an index is under way, and one more is waiting to begin.

    Whoever asks gets one that begins afterwards: what it wrote before may have missed the one under
    way.
    """

    def __init__(self, refresh: Callable[[str], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._running: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, index: str) -> None:
        """Wait for a refresh that begins after this call. Cancelling one caller leaves the rest.

        Raises whatever that refresh raises.
        """
        task = self._waiting.get(index)
        if task is None:
            task = asyncio.create_task(self._run(index, self._running.get(index)))
            # Its callers may all be gone when it fails.
            task.add_done_callback(_look_at)
            self._waiting[index] = task
        await asyncio.shield(task)

    async def _run(self, index: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        # From here on it is too late to join.
        self._running[index] = task = self._waiting.pop(index)
        try:
            await self._refresh(index)
        finally:
            if self._running[index] is task:
                del self._running[index]


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
