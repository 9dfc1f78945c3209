"""Tasks that run beside a block of code, and end with it at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


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
