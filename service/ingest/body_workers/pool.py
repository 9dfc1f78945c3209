"""The worker processes of one serving process: started when needed, replaced when they die."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from service.ingest.body_workers.wire import BodyReader, Job
from service.ingest.body_workers.worker import JobFailedError, Worker, WorkerDiedError

_log: Final = logging.getLogger(__name__)


class WorkerPool:
    """A pool of at most `size` processes; `niceness` is added to that of this process.

    A caller has to hold one of `size` slots while it reads a body here.
    """

    def __init__(self, size: int, niceness: int) -> None:
        self._size = size
        self._niceness = niceness
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._closed = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all processes in the pool."""
        return tuple(worker.pid for worker in (*self._idle, *self._busy))

    async def start(self) -> None:
        """Start all processes now, so that no body has to wait for one."""
        while len(self.pids) < self._size:
            try:
                self._idle.append(await self._start_one())
            except WorkerDiedError:
                # The next body tries again.
                return

    async def read(
        self, reader: BodyReader[Any], pieces: Sequence[bytes], *, packed: bool
    ) -> AsyncGenerator[list[Any], None]:
        """Let a worker read a body; yield what the reader yields, in batches.

        Raises:
            WorkerDiedError: the process died; another one takes its place.
            JobFailedError: the body cannot be read.
        """
        job = Job(reader, packed, sum(map(len, pieces)))
        async with self._borrow() as worker, aclosing(worker.work(job, pieces)) as found:
            async for batch in found:
                yield batch

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[Worker]:
        worker = await self._take()
        self._busy.add(worker)
        done = False
        try:
            yield worker
            done = True
        except JobFailedError:
            done = True
            raise
        except WorkerDiedError as error:
            if not self._closed:
                _log.error("body worker died", extra={"pid": worker.pid, "reason": str(error)})
            raise
        finally:
            self._busy.discard(worker)
            if done and not self._closed:
                self._idle.append(worker)
            else:
                # The worker is busy with a job whose caller is gone.
                await worker.kill()

    async def _take(self) -> Worker:
        if self._closed:
            raise WorkerDiedError("the service is shutting down")
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            _log.error("body worker died", extra={"pid": worker.pid, "reason": "exited while idle"})
            await worker.kill()
        return await self._start_one()

    async def _start_one(self) -> Worker:
        try:
            return await Worker.start(self._niceness)
        except WorkerDiedError as error:
            _log.error("body worker cannot start", extra={"reason": str(error)})
            raise

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        idle, self._idle = self._idle, []
        await asyncio.gather(
            *(worker.end() for worker in idle), *(worker.kill() for worker in tuple(self._busy))
        )
