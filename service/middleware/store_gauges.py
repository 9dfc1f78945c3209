"""The base of gauges that a scrape reads from the store: how often they are read, and how long."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Final

from prometheus_client.registry import Collector

# How long what was read is reused: any client may scrape as often as it likes.
KEPT_SECONDS: Final = 30.0
# Prometheus gives up a scrape after ten seconds.
READ_SECONDS: Final = 5.0
# The share of the time that reads of many rows may take, however many there are.
SHARE: Final = 0.01


class StoreGauges(Collector):
    """Gauges that a scrape reads from the store, unless what was read is recent."""

    def __init__(self) -> None:
        self._due = float("-inf")
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the store, unless what was read is recent."""
        async with self._lock:
            if time.monotonic() >= self._due:
                kept = await self._read()
                self._due = time.monotonic() + kept

    @abstractmethod
    async def _read(self) -> float:
        """Read the store; return for how many seconds what was read is reused."""


def keep_within_share(began: float, seconds: float, share: float | None = None) -> float:
    """Return for how long to reuse what was read since `began`.

    For `seconds`, or longer, so that reads take no more than a `share` of the time (by default
    `SHARE`).
    """
    return max(seconds, (time.monotonic() - began) / (share or SHARE))
