"""Runs requests concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def run_both(first: Awaitable[T], second: Awaitable[U]) -> tuple[T, U]:
    """Run both to completion, then raise the first failure; no task is left running."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(other, BaseException):
        raise other
    return one, other


@asynccontextmanager
async def started(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Start a task; the caller may await it any number of times inside the context.

    Leaving the context cancels a task that is still running.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
