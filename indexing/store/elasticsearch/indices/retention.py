"""What retention has dropped, told from what it has not. Pure.

Dropping a document one by one costs as much as writing it. So only whole slices of time are
deleted; what shares a slice with younger rows is left where it is and no query sees it. A row is
dropped when it is older than a mark and was written before that mark was set, which its epoch
tells: what is loaded again afterwards is there again, and a later mark that reaches less far back
does not drop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Retention:
    """How far retention went, as (moment in microseconds, epoch), oldest first; and how often.

    A mark that a later one goes beyond says nothing more, so moments fall as epochs rise.
    """

    marks: tuple[tuple[int, int], ...] = ()
    epoch: int = 0

    def advanced(self, before: int) -> Retention:
        """Retention after it went up to that moment once more."""
        epoch = self.epoch + 1
        left = tuple(mark for mark in self.marks if mark[0] > before)
        return Retention((*left, (before, epoch)), epoch)

    def is_dropped(self, source: Mapping[str, Any], field: str) -> bool:
        """Whether a document is gone as far as anybody can tell; `field` holds its time."""
        return any(
            source[field] < before and source["epoch"] < epoch for before, epoch in self.marks
        )

    def reaches(self, start: int) -> bool:
        """Whether something at or after that moment may be dropped."""
        return any(start < before for before, _ in self.marks)

    def hidden(self, field: str) -> list[dict[str, Any]]:
        """The clauses of a query's `must_not` that leave out what is dropped."""
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
