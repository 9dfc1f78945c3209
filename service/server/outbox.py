"""Collects the writes of a round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Outbox:
    """Writes the responses of one round of the event loop together.

    A write runs the kernel's code and wakes a client that waits. In a row, writes take less time
    than between the steps of other requests.
    """

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []

    def add(self, write: Callable[[], None]) -> None:
        """Call `write` after the callbacks that are ready now."""
        if not self._writes:
            asyncio.get_running_loop().call_soon(self._write_all)
        self._writes.append(write)

    def _write_all(self) -> None:
        writes, self._writes = self._writes, []
        for write in writes:
            write()
