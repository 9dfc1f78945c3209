"""Waiting for a state that another task brings about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool]) -> None:
    """Return once `holds` does; fail after 20 seconds."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the state has no event
            await asyncio.sleep(0.01)


async def let_run() -> None:
    """Let other tasks run for a few iterations of the event loop."""
    for _ in range(5):
        await asyncio.sleep(0)
