"""A request body that has arrived, and how it is read without blocking the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, Protocol, TypeVar

from indexing.ingest.body_errors import BodyError
from indexing.yielding import LoopYielder
from service.http import problems
from service.ingest.body_workers.pool import WorkerPool
from service.ingest.body_workers.wire import BodyReader, Failure
from service.ingest.body_workers.worker import JobFailedError, WorkerDiedError

T = TypeVar("T")

# Up to this size a body is read in the serving process: sending it to a worker costs more. The most
# costly event line of this size takes some three milliseconds.
QUICK_BODY_BYTES: Final = 8 * 1024


class Body(Protocol):
    """A body of that media type."""

    media_type: str

    def read(self, reader: BodyReader[T]) -> AsyncGenerator[T, None]:
        """Unpack the body and yield what the reader yields, without `None`.

        Raises:
            Problem: 400 or 413 if it cannot be read, 503 if the reading was interrupted.
        """


class SmallBody:
    """A body whose content is small enough to be read at once."""

    def __init__(
        self,
        media_type: str,
        content: bytes,
        workers: WorkerPool,
        slot: AbstractAsyncContextManager[None],
    ) -> None:
        self.media_type = media_type
        self._content = content
        self._workers = workers
        self._slot = slot

    async def read(self, reader: BodyReader[T]) -> AsyncGenerator[T, None]:
        async with self._slot:
            # Read all items before the first is used: the next body does not wait for the store.
            if len(self._content) <= QUICK_BODY_BYTES:
                items = await _read_here(reader, self._content)
            else:
                reading = _read(self._workers, reader, [self._content], packed=False)
                items = [item async for batch in reading for item in batch]
        for item in items:
            yield item


class LargeBody:
    """A body of any size, gzipped if `packed`; a worker reads it only as fast as it is written."""

    def __init__(
        self, media_type: str, pieces: Sequence[bytes], workers: WorkerPool, *, packed: bool
    ) -> None:
        self.media_type = media_type
        self._pieces = pieces
        self._workers = workers
        self._packed = packed

    async def read(self, reader: BodyReader[T]) -> AsyncGenerator[T, None]:
        reading = _read(self._workers, reader, self._pieces, packed=self._packed)
        yielder = LoopYielder()
        async with aclosing(reading) as batches:
            async for batch in batches:
                await yielder.yield_if_due()
                for item in batch:
                    yield item


async def _read_here(reader: BodyReader[T], content: bytes) -> list[T]:
    yielder = LoopYielder()
    items: list[T] = []
    try:
        for item in reader(content):
            if item is not None:
                items.append(item)
            await yielder.yield_if_due()
    except BodyError as error:
        raise _problem_of(Failure.of(error)) from error
    return items


async def _read(
    workers: WorkerPool, reader: BodyReader[Any], pieces: Sequence[bytes], *, packed: bool
) -> AsyncGenerator[list[Any], None]:
    try:
        async with aclosing(workers.read(reader, pieces, packed=packed)) as batches:
            async for batch in batches:
                yield batch
    except JobFailedError as error:
        raise _problem_of(error.failure) from error
    except WorkerDiedError as error:
        raise problems.unavailable(
            "parsing of the request body was interrupted, retry later"
        ) from error


def _problem_of(failure: Failure) -> problems.Problem:
    if failure.kind == "too large":
        return problems.too_large(failure.reason)
    return problems.malformed(failure.reason)
