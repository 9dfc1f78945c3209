"""One reading of the store for all who wait for the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Flight(Generic[V]):
    __slots__ = ("task", "waiting")

    def __init__(self, work: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.create_task(work)
        self.waiting = 0


class SingleFlight:
    """The readings under way. They end for all who wait alike, in a value or in an error.

    Who is cancelled leaves the others waiting; once nobody is left, the reading is cancelled too.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Flight[Any]] = {}

    async def share(
        self,
        name: Hashable,
        work: Callable[[], Coroutine[Any, Any, V]],
        holds: Callable[[V], bool] = lambda _: True,
    ) -> V:
        """The outcome of the work of that name: of what is under way already, or begun now.

        What had begun before this counts only where it `holds`; else the next one does.
        """
        had_begun = self._find(name) is not None
        found = await self._join(name, work)
        if had_begun and not holds(found):
            # That one has just ended: whatever is under way by now began after this.
            return await self._join(name, work)
        return found

    async def _join(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        flight: _Flight[V] | None = self._find(name)
        if flight is None:
            flight = self._under_way[name] = _Flight(work())
            flight.task.add_done_callback(partial(self._forget, name))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._forget(name, flight.task)
                flight.task.cancel()

    def _find(self, name: Hashable) -> _Flight[Any] | None:
        flight = self._under_way.get(name)
        # One that has just ended is there until the loop comes to forgetting it.
        return None if flight is None or flight.task.done() else flight

    def _forget(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        # Another reading may have begun under that name since.
        if name in self._under_way and self._under_way[name].task is task:
            del self._under_way[name]
