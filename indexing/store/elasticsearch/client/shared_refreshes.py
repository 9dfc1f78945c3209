"""Shares refreshes between callers, because each refresh costs the index a segment.

Works on one event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from indexing.fairness import current_tenant


class SharedRefreshes:
    """Runs at most one refresh of an index at a time, with at most one more waiting to start.

    A caller never joins the running refresh, which may have missed its writes; it waits for the
    next one.
    """

    def __init__(self, refresh: Callable[[str], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._running: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, index: str) -> None:
        """Wait for a refresh that begins after this call; cancelling one caller leaves the rest.

        Raises the error of that refresh.
        """
        task = self._waiting.get(index)
        if task is None:
            task = asyncio.create_task(self._run(index, self._running.get(index)))
            # If the refresh fails after all callers were cancelled, nobody reads its error, and
            # asyncio would log that.
            task.add_done_callback(_look_at)
            self._waiting[index] = task
        await asyncio.shield(task)

    async def _run(self, index: str, before: asyncio.Task[None] | None) -> None:
        # It is done for all who wait, so it must not wait as a request of the first one's tenant.
        current_tenant.set(None)
        if before is not None:
            await asyncio.wait([before])
        # From here on, later callers need another refresh.
        self._running[index] = task = self._waiting.pop(index)
        try:
            await self._refresh(index)
        finally:
            if self._running[index] is task:
                del self._running[index]


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
