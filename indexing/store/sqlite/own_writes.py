"""Distinguishes the commits of other processes from those of this one.

A writer in this process reports what it changed, so caches drop only that. A commit of another
process does not say what it changed.

`PRAGMA data_version` of a connection changes when any other connection commits. So on the only
writing connection of this process, it changes for other processes only. While that connection is in
a transaction, the value from the beginning of the transaction is valid, because nobody else can
commit before it ends.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from indexing.store.sqlite.write_turns import WriteTurns

# How long a look waits for a transaction that is about to begin or to end, on the event loop. One
# that waits longer for its begin waits for another process, which is about to commit.
WAIT_SECONDS: Final = 0.005


class OwnWrites:
    """The commits of this process; `quick` is the reading connection of the event loop."""

    def __init__(
        self,
        quick: sqlite3.Connection,
        turns: WriteTurns,
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`translated` returns a context manager that translates errors of SQLite."""
        self._quick = quick
        self._turns = turns
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
        """Return a value that changes when another process commits; call it on the event loop.

        It may also change without such a commit.
        """
        # Every cached read calls this, and entering a context manager takes as long as the query.
        try:
            # In a snapshot, the version would be that from its beginning.
            end_snapshot(self._quick)
            version = _version_of(self._quick)
        except sqlite3.Error:
            with self._translated():
                raise
        if version != self._seen:
            self._seen = version
            # This is read after `version`, so it covers every commit that `version` covers.
            of_others = self._version_of_others()
            if of_others is None or of_others != self._seen_of_others:
                self._revision += 1
            self._seen_of_others = of_others
        return self._revision, self._disowned

    @contextmanager
    def transaction(
        self, connection: sqlite3.Connection, abandoned: threading.Event
    ) -> Iterator[None]:
        """Run a transaction on the writing connection; call it in that connection's thread.

        Raises:
            asyncio.CancelledError: `abandoned` was set before it began.
        """
        self._turns.pause()
        with self._in_use:
            self._writing = connection
            self._turns.begin(connection, abandoned)
            try:
                self._at_begin = at_begin = _version_of(connection)
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._at_begin = None
                self._turns.end()
            # Another process may have committed since, and a look in this moment was told the
            # version from the beginning.
            if _version_of(connection) != at_begin:
                self.disown()

    def disown(self) -> None:
        """Treat a commit of this process like one of others: nobody reports what it changed."""
        # This is called from two threads, so an increment could be lost.
        self._disowned = object()

    def _version_of_others(self) -> int | None:
        """Return a version that changes with commits of other processes; `None` if unknown."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._in_use.acquire(blocking=False):
            if self._at_begin is not None:
                return self._at_begin
            if time.monotonic() > deadline:
                return None
            # Let the thread of the transaction go on.
            time.sleep(0)
        try:
            return None if self._writing is None else _version_of(self._writing)
        finally:
            self._in_use.release()


def end_snapshot(quick: sqlite3.Connection) -> None:
    """End the read transaction of the connection, if there is one, and the budget of its reads."""
    if quick.in_transaction:
        quick.set_progress_handler(None, 0)
        quick.rollback()


def _version_of(connection: sqlite3.Connection) -> int:
    # Every cached read calls this, and the `execute` of `ReadingConnection` takes longer.
    cursor = sqlite3.Connection.execute(connection, "PRAGMA data_version")
    version: int = cursor.fetchone()[0]
    return version
