"""What a scenario found: one line each, with its figure, and whether what was required holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `cause` says why it does not hold, or what a reader of the figure has to know."""

    what: str
    figure: str
    required: str
    holds: bool
    cause: str = ""

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        line = f"{self.what}: {self.figure} (required: {self.required}): {verdict}"
        return f"{line}; {self.cause}" if self.cause else line


def percentile(seconds: Sequence[float], share: float) -> float:
    """The value below which that share of them lies; 0 where there are none."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def median(seconds: Sequence[float]) -> float:
    """The value in the middle; 0 where there are none."""
    return statistics.median(seconds) if seconds else 0.0


def brief(text: str, length: int = 200) -> str:
    """The end of what a program said, on one line."""
    return " ".join(text.split())[-length:]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
