"""Lets long work yield to the event loop, and lets its caller end it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

# The work between two yields: long enough that yielding costs almost nothing, and short enough for
# other tasks.
WORK_SECONDS: Final = 0.003

# Long work asks from time to time whether to go on.
GoesOn = Callable[[], Awaitable[bool]]


async def always() -> bool:
    """Let the work go on to its end."""
    return True


class LoopYielder:
    """Yields by elapsed time, because steps of work differ in size."""

    def __init__(self) -> None:
        self._due = time.monotonic() + WORK_SECONDS

    async def yield_if_due(self) -> None:
        """Yield to the event loop if the work has run for long enough."""
        if time.monotonic() >= self._due:
            await asyncio.sleep(0)
            self._due = time.monotonic() + WORK_SECONDS
