"""A target, and whether a measured figure meets it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results import Results, Subject


@dataclass(frozen=True, slots=True)
class Target:
    """One target; `figure` returns `None` if it was not measured."""

    text: str
    bound: float
    at_least: bool
    figure: Callable[[Results], float | None]
    unit: str = ""
    subject: Subject | None = None


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target with its measured figure."""

    target: Target
    figure: float | None

    @property
    def holds(self) -> bool | None:
        """Return whether it holds by the exact, not the displayed figure; `None`: not measured."""
        if self.figure is None:
            return None
        if self.target.at_least:
            return self.figure >= self.target.bound
        return self.figure <= self.target.bound

    @property
    def required(self) -> str:
        """Return the bound as text."""
        sign = "≥" if self.target.at_least else "≤"
        return f"{sign} {self.target.bound:g}{self.target.unit}"

    @property
    def shown(self) -> str:
        """Return the figure as text: truncated, never rounded to the side where it would hold."""
        if self.figure is None:
            return "-"
        return f"{cut(self.figure, up=not self.target.at_least)}{self.target.unit}"

    @property
    def word(self) -> str:
        """Return whether it holds, as text."""
        return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]


def cut(figure: float, *, up: bool) -> str:
    """Format with three decimals below 10, else one; truncate towards the given side."""
    digits = 1000 if abs(figure) < 10 else 10
    whole = -(-figure * digits // 1) if up else figure * digits // 1
    return f"{whole / digits:.3f}" if digits == 1000 else f"{whole / digits:,.1f}"
