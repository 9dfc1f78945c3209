"""Runs requests concurrently."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
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


async def run_ahead(
    works: Iterable[Callable[[], Coroutine[Any, Any, T]]], at_once: int
) -> AsyncGenerator[T]:
    """Run the works concurrently and yield their results in order.

    At most `at_once` works are running or have a result that was not yielded yet. The first failure
    is raised; no task is left running.
    """
    running: deque[asyncio.Task[T]] = deque()
    try:
        for work in works:
            if len(running) == at_once:
                yield await running.popleft()
            running.append(asyncio.create_task(work()))
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
