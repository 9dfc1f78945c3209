"""Decides which rows retention has dropped. Pure.

Deleting a single document costs as much as writing it. So retention deletes only whole time slices.
An old row in a slice with younger rows stays stored, and every query filters it out.

A row is dropped if it is older than the cutoff of a retention mark and was written before that mark
was set. The `epoch` of a row shows when it was written. So a row that is uploaded again afterwards
is visible again, and a later mark with an earlier cutoff does not drop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indexing.health.window import NEVER, day_number


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention marks, as (cutoff in microseconds, epoch), oldest first.

    `epoch` counts the retention runs. A mark is redundant once a later one has the same or a later
    cutoff, so cutoffs fall as epochs rise.
    """

    marks: tuple[tuple[int, int], ...] = ()
    epoch: int = 0

    def advanced(self, before: int) -> Retention:
        """Return the marks after another retention run with that cutoff, in microseconds."""
        epoch = self.epoch + 1
        left = tuple(mark for mark in self.marks if mark[0] > before)
        return Retention((*left, (before, epoch)), epoch)

    def is_dropped(self, source: Mapping[str, Any], field: str) -> bool:
        """Return whether retention has dropped this document; `field` holds its time."""
        return any(
            source[field] < before and source["epoch"] < epoch for before, epoch in self.marks
        )

    @property
    def final_day(self) -> int:
        """The newest UTC day of which retention may have dropped rows, counted from 1970."""
        return max((day_number(before) for before, _ in self.marks), default=NEVER)

    def reaches(self, start: int) -> bool:
        """Return whether a row at or after that moment may be dropped."""
        return any(start < before for before, _ in self.marks)

    def hidden(self, field: str) -> list[dict[str, Any]]:
        """Return the `must_not` clauses that filter out dropped rows."""
        return [
            {
                "bool": {
                    "filter": [
                        {"range": {field: {"lt": before}}},
                        {"range": {"epoch": {"lt": epoch}}},
                    ]
                }
            }
            for before, epoch in self.marks
        ]
