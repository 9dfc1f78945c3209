"""A list of the API that is read piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

T = TypeVar("T")


class Rows(Generic[T]):
    """The rows of a list, read while they are walked; each walk starts again at the first page."""

    def __init__(self, read: Callable[[], AsyncGenerator[list[T], None]]) -> None:
        self._read = read

    def pages(self) -> AsyncGenerator[list[T], None]:
        """Walk the pages, one request each, or the pieces of a stream as they come."""
        return self._read()

    async def __aiter__(self) -> AsyncIterator[T]:
        async with aclosing(self._read()) as pages:
            async for page in pages:
                for row in page:
                    yield row
