"""One read of the store for all who wait for the same value."""

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
    """Calls in progress by name. All who wait for one get the same value or error.

    When one of them is cancelled, the others go on waiting; when all are, so is the call.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Flight[Any]] = {}

    async def share(
        self,
        name: Hashable,
        work: Callable[[], Coroutine[Any, Any, V]],
        holds: Callable[[V], bool] = lambda _: True,
    ) -> V:
        """The result of the call of that name: the one in progress, or a new one.

        The result of a call that began earlier counts only if it `holds`; else the next one does.
        """
        had_begun = self._find(name) is not None
        found = await self._join(name, work)
        if had_begun and not holds(found):
            # That call has just ended: whatever is in progress by now began after this one.
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
        # A call that has just ended stays here until the event loop runs its callback.
        return None if flight is None or flight.task.done() else flight

    def _forget(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        # Another call of that name may have begun since.
        if name in self._under_way and self._under_way[name].task is task:
            del self._under_way[name]
