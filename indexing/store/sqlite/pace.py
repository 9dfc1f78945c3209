"""How many rows one write transaction takes, learnt from how long the last ones took. Pure.

Other writers get in between two transactions, so each is kept short, on slow machines too.
"""

from __future__ import annotations

from typing import Final

# A commit takes some milliseconds: shorter transactions would make large loads slow.
TRANSACTION_SECONDS: Final = 0.05

_FIRST_ROWS: Final = 200
_MIN_ROWS: Final = 50
_MAX_ROWS: Final = 2_000


class Pace:
    """The pace of one kind of row."""

    def __init__(self) -> None:
        self.rows = _FIRST_ROWS

    def learn(self, rows: int, seconds: float) -> None:
        """Take in that a transaction of so many rows took so long."""
        if rows < self.rows and seconds < TRANSACTION_SECONDS:
            # A short one says little of long ones.
            return
        fitting = int(rows * TRANSACTION_SECONDS / max(seconds, 1e-6))
        self.rows = min(max(fitting, _MIN_ROWS), 2 * self.rows, _MAX_ROWS)
