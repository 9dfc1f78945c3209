"""Prepares the next item of a source while its consumer works on the last one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def one_ahead(source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield the items of `source`; it goes on to the next one while the consumer has the last.

    An error of `source` is raised after the items before it. `source` is closed at the end.
    """
    async with aclosing(source):
        coming = asyncio.create_task(anext(source, None))
        try:
            while (item := await coming) is not None:
                coming = asyncio.create_task(anext(source, None))
                yield item
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
