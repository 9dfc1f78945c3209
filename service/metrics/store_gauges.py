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
    """Gauges that a scrape reads from the store, unless what was read is recent.

    A scrape waits at most `wait_seconds` for a read, if these are set; a later one has what it
    finds. A client that leaves does not end the read: otherwise each of those who leave at once
    would begin another. An unexpected error is raised by the scrapes that wait.
    """

    def __init__(self, wait_seconds: float | None = None) -> None:
        self.wait_seconds = wait_seconds
        self._due = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Read the store, unless what was read is recent."""
        if self._reading is None:
            if time.monotonic() < self._due:
                return
            self._reading = asyncio.create_task(self._run())
            self._reading.add_done_callback(self._forget)
        done, _ = await asyncio.wait([self._reading], timeout=self.wait_seconds)
        for reading in done:
            if not reading.cancelled():
                reading.result()

    async def close(self) -> None:
        """End the read in progress."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _run(self) -> None:
        kept = await self._read()
        self._due = time.monotonic() + kept

    def _forget(self, _: asyncio.Task[None]) -> None:
        self._reading = None

    @abstractmethod
    async def _read(self) -> float:
        """Read the store; return for how many seconds what was read is reused."""


def keep_within_share(began: float, seconds: float, share: float | None = None) -> float:
    """Return for how long to reuse what was read since `began`.

    For `seconds`, or longer, so that reads take no more than a `share` of the time (by default
    `SHARE`).
    """
    return max(seconds, (time.monotonic() - began) / (share or SHARE))
