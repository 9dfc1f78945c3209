"""Connections that only read: a long read can be interrupted, and the ids of rows are cached."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any


class InterruptibleConnection(sqlite3.Connection):
    """A connection whose reads can be interrupted between two statements too.

    SQLite interrupts only the statement that runs at that moment. It might never stop a read of
    many short statements.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Called before each statement; it raises an error if the read must end.
        self.check: Callable[[], None] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self.check is not None:
            self.check()
        return super().execute(sql, parameters)


class ReadingConnection(InterruptibleConnection):
    """A read-only connection that caches the ids of repositories, which never change."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.repository_ids: dict[str, int] = {}
