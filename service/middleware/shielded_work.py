"""Work on requests that is finished even if their clients leave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiohttp import web

T = TypeVar("T")

# At shutdown: how long work whose client has gone may still take.
FINISH_SECONDS: Final = 1.0


class ShieldedWork:
    """The work in progress of one process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish the work even if the caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait a moment for work whose callers are gone, then cancel it."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=FINISH_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


SHIELDED_WORK: Final = web.AppKey("shielded_work", ShieldedWork)
