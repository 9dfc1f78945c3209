"""Lists of the API that are read lazily."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from typing import Generic, Self, TypeVar

from mergewatch.client.bodies import StreamedEvent

T = TypeVar("T")


class Rows(Generic[T]):
    """The rows of a list, read lazily; each iteration starts again at the first page."""

    def __init__(self, read: Callable[[], AsyncGenerator[list[T], None]]) -> None:
        self._read = read

    def pages(self) -> AsyncGenerator[list[T], None]:
        """Yield the rows of each page, or of each chunk of a stream, as they arrive."""
        return self._read()

    async def __aiter__(self) -> AsyncIterator[T]:
        async with aclosing(self._read()) as pages:
            async for page in pages:
                for row in page:
                    yield row


class FollowedEvents(Rows[StreamedEvent]):
    """Events as they arrive; never ends.

    `last_id` is the id to resume after: that of the last event of the pages that were read, or of
    the place where the stream began. Until the stream is open it is None.
    """

    def __init__(
        self, follow: Callable[[FollowedEvents], AsyncGenerator[list[StreamedEvent], None]]
    ) -> None:
        super().__init__(lambda: follow(self))
        self.last_id: str | None = None


class FollowedIterator(Iterator[StreamedEvent]):
    """Events as they arrive, for synchronous programs; never ends."""

    def __init__(
        self, followed: FollowedEvents, events: Generator[StreamedEvent, None, None]
    ) -> None:
        self._followed = followed
        self._events = events

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamedEvent:
        return next(self._events)

    @property
    def last_id(self) -> str | None:
        """The id to resume after, as `FollowedEvents.last_id`; also while no event has arrived."""
        return self._followed.last_id

    def close(self) -> None:
        """End the stream."""
        self._events.close()
