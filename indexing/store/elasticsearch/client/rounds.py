"""Combines concurrent small calls into few large ones (group commit).

A cluster answers a request with one document hardly sooner than one with a hundred. This works on
one event loop only; calls of other processes are not combined.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from indexing.errors import StoreError
from indexing.fairness import current_tenant

T = TypeVar("T")
R = TypeVar("R")

# A function that does the work of several calls; it returns a result or an error for each, in
# order.
Work = Callable[[Sequence[T]], Awaitable[Sequence[R | StoreError]]]


async def settle(work: Work[T, R], calls: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
    """Do the work of all calls; each future gets the result of its item, or the error."""
    try:
        outcomes = await work([item for item, _ in calls])
    except Exception as error:  # noqa: BLE001 - it goes to all who wait for it
        for _, result in calls:
            if not result.done():
                result.set_exception(error)
        return
    for (_, result), outcome in zip(calls, outcomes, strict=True):
        if result.done():
            continue
        if isinstance(outcome, StoreError):
            result.set_exception(outcome)
        else:
            result.set_result(outcome)


@dataclass(frozen=True, slots=True)
class _Call(Generic[T, R]):
    """A call that waits for a round."""

    item: T
    size: int
    result: asyncio.Future[R]


class Rounds(Generic[T, R]):
    """Runs all waiting calls as one round; calls that arrive meanwhile wait for the next round.

    The first call starts at once, so a single caller never waits for others. A round takes at least
    one call, and further ones while the sum of their sizes is at most `most`: one of each tenant in
    turn, and those of one tenant in the order of their arrival. At most `at_once` rounds run at the
    same time. Only waiting calls take memory, so a limit on callers bounds it.
    """

    def __init__(self, work: Work[T, R], *, most: int, at_once: int) -> None:
        self._work = work
        self._most = most
        self._at_once = at_once
        self._waiting: OrderedDict[Hashable, deque[_Call[T, R]]] = OrderedDict()
        self._workers: set[asyncio.Task[None]] = set()

    async def run(self, item: T, size: int) -> R:
        """Return the result of this call, or raise its error; cancelling it leaves the others."""
        call: _Call[T, R] = _Call(item, size, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(current_tenant.get(), deque()).append(call)
        if len(self._workers) < self._at_once:
            worker = asyncio.create_task(self._run())
            self._workers.add(worker)
        return await call.result

    async def _run(self) -> None:
        # The work is done for all callers of a round, so it must not count as work of the tenant
        # that happened to start the worker.
        current_tenant.set(self)
        calls: list[_Call[T, R]] = []
        try:
            while calls := self._take():
                await settle(self._work, [(call.item, call.result) for call in calls])
        finally:
            # If this task is cancelled, its callers must not wait forever.
            for call in calls:
                call.result.cancel()
            # Remove the worker now and not in a done callback: a call that arrives in between would
            # start no worker.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _take(self) -> list[_Call[T, R]]:
        """Remove and return the calls of the next round, without those that were cancelled."""
        taken: list[_Call[T, R]] = []
        size = 0
        while self._waiting:
            tenant, calls = next(iter(self._waiting.items()))
            call = calls[0]
            if not call.result.done():
                size += call.size
                if taken and size > self._most:
                    break
                taken.append(call)
            calls.popleft()
            # The tenant goes behind all others.
            self._waiting.move_to_end(tenant)
            if not calls:
                del self._waiting[tenant]
        return taken
