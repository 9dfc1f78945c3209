"""The size of write transactions: other writers run between two, so each is kept short."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from indexing.store.pace import Pace

# The time that a transaction should take, even on slow machines. A commit alone takes some
# milliseconds, so shorter transactions would slow down large loads.
TRANSACTION_SECONDS: Final = 0.05

_FIRST_ROWS: Final = 200
_MIN_ROWS: Final = 50
_MAX_ROWS: Final = 2_000


def new_pace() -> Pace:
    """Return the pace of one kind of row, before the first transaction."""
    return Pace(TRANSACTION_SECONDS, _FIRST_ROWS, _MIN_ROWS, _MAX_ROWS)


class Deletion(Protocol):
    """Deletes some rows in one transaction."""

    def __call__(self, connection: sqlite3.Connection, *, limit: int) -> int:
        """Delete up to `limit` rows; return their number."""


def at_pace(delete: Deletion) -> Callable[[sqlite3.Connection], int]:
    """Return a step that deletes as many rows as a short transaction can."""
    return partial(_delete_some, delete=delete, pace=new_pace())


def _delete_some(connection: sqlite3.Connection, delete: Deletion, pace: Pace) -> int:
    began = time.monotonic()
    deleted = delete(connection, limit=pace.rows)
    pace.learn(deleted, time.monotonic() - began)
    return deleted
