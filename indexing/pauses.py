"""Lets long work on the event loop pause, so that other tasks can run."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# The work between two pauses: long enough that pauses cost almost nothing, and short enough for
# other tasks.
WORK_SECONDS: Final = 0.003


class Pause:
    """Pauses by elapsed time, because steps of work differ in size."""

    def __init__(self) -> None:
        self._due = time.monotonic() + WORK_SECONDS

    async def if_due(self) -> None:
        """Pause if the work has run for long enough."""
        if time.monotonic() >= self._due:
            await asyncio.sleep(0)
            self._due = time.monotonic() + WORK_SECONDS
