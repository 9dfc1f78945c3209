"""Combines calls that begin at about the same time (micro-batching)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.rounds import Work

T = TypeVar("T")
R = TypeVar("R")

# Batches of a kind that start at once; more of them show that the cluster is the limit.
_AT_ONCE: Final = 2


@dataclass(slots=True, eq=False)
class _Batch(Generic[T, R]):
    """Calls of one kind; `task` does their work, once no more are added."""

    items: list[T] = field(default_factory=list)
    results: list[asyncio.Future[R]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Batches(Generic[T, R]):
    """Does the work of calls of one kind together: at most `most` of them at once.

    Calls that begin in the same iteration of the event loop share a batch. While two batches of
    their kind are in progress, calls wait for the end of one of them, until their own batch is
    full, or for `hold` seconds at most: batches grow with the load, and a cluster that hangs delays
    a call only once.

    Cancelling one caller leaves the others; the work is cancelled when its last caller is.
    """

    def __init__(self, work: Work[T, R], *, most: int, hold: float) -> None:
        self._work = work
        self._most = most
        self._hold = hold
        # The batches that still take calls.
        self._open: dict[Hashable, _Batch[T, R]] = {}
        # The batches in progress.
        self._running: Counter[Hashable] = Counter()

    async def run(self, kind: Hashable, item: T) -> R:
        """Return the result of this call, or raise its error."""
        loop = asyncio.get_running_loop()
        batch = self._open.get(kind)
        if batch is None:
            batch = self._open[kind] = _Batch()
            if self._running[kind] >= _AT_ONCE:
                loop.call_later(self._hold, self._start, kind, batch)
            else:
                # All tasks that are ready now run before this does.
                loop.call_soon(self._start, kind, batch)
        batch.items.append(item)
        result: asyncio.Future[R] = loop.create_future()
        batch.results.append(result)
        if len(batch.items) == self._most:
            self._start(kind, batch)
        try:
            return await result
        except asyncio.CancelledError:
            if batch.task is not None and all(each.done() for each in batch.results):
                batch.task.cancel()
            raise

    def _start(self, kind: Hashable, batch: _Batch[T, R]) -> None:
        if self._open.get(kind) is not batch:
            return
        del self._open[kind]
        if all(each.done() for each in batch.results):
            return
        self._running[kind] += 1
        batch.task = asyncio.create_task(self._run(batch))
        batch.task.add_done_callback(lambda _: self._end(kind))

    def _end(self, kind: Hashable) -> None:
        self._running[kind] -= 1
        if not self._running[kind]:
            del self._running[kind]
        if (held := self._open.get(kind)) is not None:
            self._start(kind, held)

    async def _run(self, batch: _Batch[T, R]) -> None:
        waiting = batch.results
        try:
            outcomes = await self._work(batch.items)
        except Exception as error:  # noqa: BLE001 - it goes to all who wait for it
            for result in waiting:
                if not result.done():
                    result.set_exception(error)
        else:
            for result, outcome in zip(waiting, outcomes, strict=True):
                if result.done():
                    continue
                if isinstance(outcome, StoreError):
                    result.set_exception(outcome)
                else:
                    result.set_result(outcome)
        finally:
            # If this task is cancelled, its callers must not wait forever.
            for result in waiting:
                result.cancel()
