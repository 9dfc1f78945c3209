"""Event loop lag: how late the loop runs a callback that is due. Every request waits as long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# The time between measurements: a delay is underestimated by at most this.
INTERVAL_SECONDS: Final = 0.01


class LoopLag:
    """Measures the lag of one event loop and reports each measurement, in seconds."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None
        self._longest = 0.0

    def start(self) -> None:
        """Measure until `stop` is called."""
        loop = asyncio.get_running_loop()
        due = loop.time() + INTERVAL_SECONDS

        def measure() -> None:
            lag = max(0.0, loop.time() - due)
            self._longest = max(self._longest, lag)
            self._observe(lag)
            self.start()

        self._timer = loop.call_at(due, measure)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def take_longest(self) -> float:
        """Return the longest lag since the last call, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest
