"""Lets others on the event loop have a turn during work that goes on for long."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# Long enough that pausing costs nothing beside the work, short enough for others to wait.
WORK_SECONDS: Final = 0.003


class Pause:
    """Pauses by elapsed time: pieces of work are not alike."""

    def __init__(self) -> None:
        self._due = time.monotonic() + WORK_SECONDS

    async def if_due(self) -> None:
        """Pause when the work has gone on for long enough."""
        if time.monotonic() >= self._due:
            await asyncio.sleep(0)
            self._due = time.monotonic() + WORK_SECONDS
