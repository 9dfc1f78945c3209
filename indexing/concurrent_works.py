"""Runs several changes of a store at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Changes of quarantines wait for refreshes of Elasticsearch, which concurrent calls share. Calls of
# other requests compete with these for the connections.
AT_ONCE: Final = 10


async def run_some_at_once(
    works: Iterable[Callable[[], Coroutine[Any, Any, T]]],
) -> AsyncGenerator[T]:
    """Run the works, several at once, and yield their results in order.

    After a failure no other work begins. It is raised after the results of those that had begun.
    """
    remaining = iter(works)
    failure: Exception | None = None
    while failure is None and (some := list(islice(remaining, AT_ONCE))):
        running = [asyncio.create_task(work()) for work in some]
        try:
            for task in running:
                try:
                    result = await task
                except Exception as error:  # noqa: BLE001 - raised at the end
                    failure = failure or error
                else:
                    yield result
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    if failure is not None:
        raise failure
