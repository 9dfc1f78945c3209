"""What retention has dropped, told from what it has not. Pure.

Dropping a document one by one costs as much as writing it. So only whole slices of time are
deleted; what shares a slice with younger rows is left where it is and no query sees it. A row is
dropped when it is older than the mark and was written before the mark was set, which its epoch
tells: what is loaded again afterwards is there again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Retention:
    """How far retention went, in microseconds, and how often; `before` is `None` at first."""

    before: int | None = None
    epoch: int = 0

    def is_dropped(self, source: Mapping[str, Any], field: str) -> bool:
        """Whether a document is gone as far as anybody can tell; `field` holds its time."""
        return (
            self.before is not None and source[field] < self.before and source["epoch"] < self.epoch
        )

    def reaches(self, start: int) -> bool:
        """Whether something at or after that moment may be dropped."""
        return self.before is not None and start < self.before

    def hidden(self, field: str) -> list[dict[str, Any]]:
        """The clauses of a query's `must_not` that leave out what is dropped."""
        if self.before is None:
            return []
        old = {"range": {field: {"lt": self.before}}}
        return [{"bool": {"filter": [old, {"range": {"epoch": {"lt": self.epoch}}}]}}]
