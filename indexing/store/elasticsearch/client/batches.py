"""Combines calls that begin at about the same time (micro-batching)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from indexing.store.elasticsearch.client.rounds import Work, settle

T = TypeVar("T")
R = TypeVar("R")

# How many batches of a kind are in progress before calls are held back: more of them show that the
# cluster is the limit.
_IN_PROGRESS: Final = 2


@dataclass(slots=True, eq=False)
class _Batch(Generic[T, R]):
    """Calls of one kind, each with the future of its result.

    `task` does their work, once no more are added.
    """

    calls: list[tuple[T, asyncio.Future[R]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Batches(Generic[T, R]):
    """Does the work of calls of one kind together: at most `most` of them at once.

    Calls that begin in the same iteration of the event loop share a batch. While two batches of
    their kind are in progress, calls are held back until one of them ends or their own batch is
    full, for `hold` seconds at most. So batches grow with the load.

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
            if self._running[kind] >= _IN_PROGRESS:
                loop.call_later(self._hold, self._start, kind, batch)
            else:
                # All tasks that are ready now run before this does.
                loop.call_soon(self._start, kind, batch)
        result: asyncio.Future[R] = loop.create_future()
        batch.calls.append((item, result))
        if len(batch.calls) == self._most:
            self._start(kind, batch)
        try:
            return await result
        except asyncio.CancelledError:
            if batch.task is not None and all(each.done() for _, each in batch.calls):
                batch.task.cancel()
            raise

    def _start(self, kind: Hashable, batch: _Batch[T, R]) -> None:
        if self._open.get(kind) is not batch:
            return
        del self._open[kind]
        batch.calls = [call for call in batch.calls if not call[1].done()]
        if not batch.calls:
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
        try:
            await settle(self._work, batch.calls)
        finally:
            # If this task is cancelled, its callers must not wait forever.
            for _, result in batch.calls:
                result.cancel()
