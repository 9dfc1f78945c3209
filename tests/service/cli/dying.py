"""Kills the process that calls it in the middle of a write."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from indexing.store.sqlite.connections import Connections

T = TypeVar("T")


def die_after(writes: int) -> None:
    """Kill this process at the end of that write transaction on SQLite, before its commit."""
    write = Connections.write
    numbers = count(1)

    async def write_and_die(self: Connections, work: Callable[[sqlite3.Connection], T]) -> T:
        is_last = next(numbers) >= writes

        def dying(connection: sqlite3.Connection) -> T:
            result = work(connection)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return await write(self, dying)

    Connections.write = write_and_die  # type: ignore[method-assign]
