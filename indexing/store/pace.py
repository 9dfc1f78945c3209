"""Adapts the number of rows in a write to how long earlier writes took. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """The size of a write of one kind of row, so that it takes `seconds`.

    `rows` is the number to write next: at first the given one, later from `least` to `most`.
    """

    seconds: float
    rows: int
    least: int
    most: int

    def learn(self, rows: int, seconds: float) -> None:
        """Record the time of a write of this many rows."""
        if rows < self.rows and seconds < self.seconds:
            # The time of a small write does not predict that of a full one.
            return
        fitting = int(rows * self.seconds / max(seconds, 1e-6))
        self.rows = min(max(fitting, self.least), 2 * self.rows, self.most)
