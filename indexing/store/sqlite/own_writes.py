"""Tells the commits of other processes from those of this one.

A writer of this process says what it changed. Of another process it is only known that it has
committed. `PRAGMA data_version` of a connection changes when any other connection commits. So on
the writing connection it changes for other processes only. While that connection is at work, the
value from the beginning of its transaction holds: nobody else can commit before it ends.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


class OwnWrites:
    """The commits of one process; `quick` is a reading connection of the event loop."""

    def __init__(
        self, quick: sqlite3.Connection, translated: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`translated` is a context in which the errors of SQLite become those of the package."""
        self._quick = quick
        self._translated = translated
        self._seen: int | None = None
        self._seen_of_others: int | None = None
        self._revision = 0
        self._disowned = object()
        # Held by the thread that uses the writing connection.
        self._in_use = threading.Lock()
        self._writing: sqlite3.Connection | None = None
        self._at_begin: int | None = None

    def revision(self) -> tuple[int, object]:
        """Return a value that changes when another process commits; may change without reason.

        Call it on the event loop.
        """
        # Every cached read asks for it, and entering a context manager takes as long as the query.
        try:
            version = _version_of(self._quick)
        except sqlite3.Error:
            with self._translated():
                raise
        if version != self._seen:
            self._seen = version
            # Read after the version above, so it includes every commit that the version includes.
            of_others = self._version_of_others()
            if of_others is None or of_others != self._seen_of_others:
                self._revision += 1
            self._seen_of_others = of_others
        return self._revision, self._disowned

    @contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Run a transaction of the writing connection, in its thread."""
        with self._in_use:
            self._writing = connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._at_begin = _version_of(connection)
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._at_begin = None

    def disown(self) -> None:
        """Count a commit of this process as one of others, because nobody says what it changed."""
        # Called from two threads: an increment could be lost.
        self._disowned = object()

    def _version_of_others(self) -> int | None:
        """Return the version that changes with commits of other processes; None if not known."""
        if not self._in_use.acquire(blocking=False):
            return self._at_begin
        try:
            return None if self._writing is None else _version_of(self._writing)
        finally:
            self._in_use.release()


def _version_of(connection: sqlite3.Connection) -> int:
    # Every cached read asks: the `execute` of a reading connection costs more.
    cursor = sqlite3.Connection.execute(connection, "PRAGMA data_version")
    version: int = cursor.fetchone()[0]
    return version
