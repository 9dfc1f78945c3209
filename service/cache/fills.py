"""One reading of the store for all who wait for the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Fill(Generic[V]):
    __slots__ = ("task", "waiting")

    def __init__(self, work: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.create_task(work)
        self.waiting = 0


class Fills:
    """The readings under way. They end for all who wait alike, in a value or in an error.

    Who is cancelled leaves the others waiting; once nobody is left, the reading is cancelled too.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Fill[Any]] = {}

    async def share(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The outcome of the work of that name: of what is under way already, or begun now."""
        fill: _Fill[V] | None = self._under_way.get(name)
        if fill is None:
            fill = self._under_way[name] = _Fill(work())
            fill.task.add_done_callback(partial(self._forget, name))
        fill.waiting += 1
        try:
            return await asyncio.shield(fill.task)
        finally:
            fill.waiting -= 1
            if not fill.waiting and not fill.task.done():
                self._forget(name, fill.task)
                fill.task.cancel()

    async def share_next(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The outcome of a work of that name that begins no sooner than now."""
        own = False

        async def run() -> V:
            nonlocal own
            own = True
            return await work()

        found = await self.share(name, run)
        # What was under way already ended just now: whatever is under way next began after this.
        return found if own else await self.share(name, run)

    def _forget(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        # Another reading may have begun under that name since.
        if name in self._under_way and self._under_way[name].task is task:
            del self._under_way[name]
