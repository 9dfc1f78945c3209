"""Findings of a scenario: each has a result, a requirement, and whether the requirement holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `cause` says why it does not hold, or explains the result."""

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
    """Return the value below which that share of the samples lies; 0 without samples."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def median(seconds: Sequence[float]) -> float:
    """Return the median; 0 without samples."""
    return statistics.median(seconds) if seconds else 0.0


def brief(text: str) -> str:
    """Return the last 200 characters of a program's output, on one line."""
    return " ".join(text.split())[-200:]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
