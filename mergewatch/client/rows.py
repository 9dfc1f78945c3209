"""A list of the API that is read page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rows(Generic[T]):
    """The rows of a list, read while they are walked; each walk starts again at the first page."""

    def __init__(self, read: Callable[[], AsyncIterator[list[T]]]) -> None:
        self._read = read

    def pages(self) -> AsyncIterator[list[T]]:
        """Walk the pages, one request each."""
        return self._read()

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self._read():
            for row in page:
                yield row
