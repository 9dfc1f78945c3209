"""Several requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def run_both(first: Awaitable[T], second: Awaitable[U]) -> tuple[T, U]:
    """Run both to their ends, then raise the first failure: nothing is left under way."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(other, BaseException):
        raise other
    return one, other


@asynccontextmanager
async def started(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Start work that the context waits for where it needs it, once or more often.

    Work that is still under way when the context is left is cancelled.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
