"""Combines calls that begin in the same iteration of the event loop (micro-batching).

Unlike `Rounds`, no call waits for an earlier batch: a cluster that hangs delays a call only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.rounds import Work

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Batch(Generic[T, R]):
    """Calls of one kind; `task` does their work, once no more are added."""

    items: list[T] = field(default_factory=list)
    results: list[asyncio.Future[R]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Batches(Generic[T, R]):
    """Does the work of calls of one kind together: at most `most` of them at once.

    Cancelling one caller leaves the others; the work is cancelled when its last caller is.
    """

    def __init__(self, work: Work[T, R], *, most: int) -> None:
        self._work = work
        self._most = most
        # The batches that still take calls.
        self._open: dict[Hashable, _Batch[T, R]] = {}

    async def run(self, kind: Hashable, item: T) -> R:
        """Return the result of this call, or raise its error."""
        loop = asyncio.get_running_loop()
        batch = self._open.get(kind)
        if batch is None:
            batch = self._open[kind] = _Batch()
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
        if self._open.get(kind) is batch:
            del self._open[kind]
            batch.task = asyncio.create_task(self._run(batch))

    async def _run(self, batch: _Batch[T, R]) -> None:
        waiting = batch.results
        try:
            if all(each.done() for each in waiting):
                return
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
