"""Lets the writers of several processes take turns at one file.

With SQLite's own wait, a process looks up to 100 ms later whether the file is free. By then, one
with much to write has begun its next transaction, again and again. So a process that waits looks
twice each millisecond. One that has held the file for long leaves it alone before it begins again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from typing import Final

LOOK_SECONDS: Final = 0.0005
# After a transaction that takes longer than this, the next one comes later by the pause.
LONG_SECONDS: Final = 0.01
PAUSE_SECONDS: Final = 0.0012


class WriteTurns:
    """The turns of the writing thread of this process."""

    def __init__(self, busy_seconds: float) -> None:
        """`busy_seconds` is how long to wait for the transactions of other processes."""
        self._busy_seconds = busy_seconds
        self._began = 0.0
        self._next_at = 0.0

    def pause(self) -> None:
        """Leave the file to others if this process has just held it for long."""
        seconds = self._next_at - time.monotonic()
        if seconds > 0:
            time.sleep(seconds)

    def begin(self, connection: sqlite3.Connection, abandoned: threading.Event) -> None:
        """Begin a write transaction as soon as no other process has one.

        Raises:
            asyncio.CancelledError: the caller has left, so that `abandoned` is set.
            sqlite3.OperationalError: the file stayed busy.
        """
        deadline = time.monotonic() + self._busy_seconds
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while not abandoned.is_set():
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                    if not is_busy or time.monotonic() > deadline:
                        raise
                    abandoned.wait(LOOK_SECONDS)
                else:
                    # The caller may have left between the look and this.
                    if abandoned.is_set():
                        connection.execute("ROLLBACK")
                        break
                    self._began = time.monotonic()
                    return
        finally:
            connection.execute(f"PRAGMA busy_timeout = {self._busy_seconds * 1_000:.0f}")
        raise asyncio.CancelledError

    def end(self) -> None:
        """Note the end of the transaction."""
        now = time.monotonic()
        if now - self._began > LONG_SECONDS:
            self._next_at = now + PAUSE_SECONDS
