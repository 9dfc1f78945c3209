"""The size of write transactions: other writers run between two, so each is kept short."""

from __future__ import annotations

from typing import Final

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
