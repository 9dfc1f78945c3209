"""A read in a thread that another thread can interrupt, before or while it runs."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from indexing.errors import StoreUnavailableError
from indexing.store.sqlite.repositories import InterruptibleConnection

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class ReadInterruptedError(StoreUnavailableError):
    """A read took longer than its limit, or no caller waits for it any more."""

    def __init__(self) -> None:
        super().__init__("the read took too long and was interrupted")


class SlowRead(Generic[T]):
    """One piece of work for one connection.

    SQLite checks for an interruption by itself, at each step. A handler that checked the clock
    would have to take the interpreter's lock each time, which a busy event loop is slow to release.
    """

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        # An interruption must not hit the next read of the same connection.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._interrupted = False

    def __call__(self, connection: sqlite3.Connection) -> T:
        """Run the work.

        Raises:
            ReadInterruptedError: `interrupt` was called.
        """
        with self._lock:
            if self._interrupted:
                raise ReadInterruptedError
            self._connection = connection
        try:
            # All statements read one snapshot, as on the event loop.
            connection.execute("BEGIN")
            if isinstance(connection, InterruptibleConnection):
                connection.check = self._check
            return self._work(connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise ReadInterruptedError from error
            raise
        finally:
            if isinstance(connection, InterruptibleConnection):
                connection.check = None
            with self._lock:
                self._connection = None
            # An interruption can end a ROLLBACK. Later reads of this thread would fail, or see the
            # old snapshot, and the log could not be emptied.
            if connection.in_transaction:
                connection.rollback()

    def _check(self) -> None:
        if self._interrupted:
            raise ReadInterruptedError

    @property
    def is_interrupted(self) -> bool:
        """Return whether `interrupt` was called."""
        return self._interrupted

    def interrupt(self) -> None:
        """Interrupt the work as soon as possible; finished work is not affected."""
        with self._lock:
            self._interrupted = True
            if self._connection is not None:
                self._connection.interrupt()
