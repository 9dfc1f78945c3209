"""Counts and progress of an ingest; the caller decides how to show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class IngestCount:
    """The number of records read, and their outcomes; the last three add up to the first."""

    read: int = 0
    written: int = 0
    unchanged: int = 0
    refused: int = 0

    def __add__(self, other: IngestCount) -> IngestCount:
        return IngestCount(
            self.read + other.read,
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.refused + other.refused,
        )


class Progress(Protocol):
    """Called from time to time with the position in a source."""

    def __call__(self, *, lines: int, offset: int) -> None:
        """Report that `lines` are done, up to about byte `offset` of the decompressed text."""
