"""What an ingest did, in numbers and along the way; how that is shown is the caller's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class IngestCount:
    """How many records were read, and what became of them; the last three add up to the first."""

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
    """Called now and then with how far a source has been worked through."""

    def __call__(self, *, lines: int, offset: int) -> None:
        """`lines` were done, and they end at about byte `offset` of the text, decompressed."""
