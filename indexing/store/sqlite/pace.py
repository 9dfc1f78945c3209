"""Adapts the number of rows in a write transaction to how long earlier ones took. Pure.

Other writers run between two transactions, so each is kept short, even on slow machines.
"""

from __future__ import annotations

from typing import Final

# The time that a transaction should take. A commit alone takes some milliseconds, so shorter
# transactions would slow down large loads.
TRANSACTION_SECONDS: Final = 0.05

_FIRST_ROWS: Final = 200
_MIN_ROWS: Final = 50
_MAX_ROWS: Final = 2_000


class Pace:
    """The transaction size for one kind of row; `rows` is the number to write next."""

    def __init__(self) -> None:
        self.rows = _FIRST_ROWS

    def learn(self, rows: int, seconds: float) -> None:
        """Record the time of a transaction with this many rows."""
        if rows < self.rows and seconds < TRANSACTION_SECONDS:
            # The time of a small transaction does not predict that of a full one.
            return
        fitting = int(rows * TRANSACTION_SECONDS / max(seconds, 1e-6))
        self.rows = min(max(fitting, _MIN_ROWS), 2 * self.rows, _MAX_ROWS)
