"""The state of one sequence that the rules need: its days, and its newest verdicts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from indexing.health.thresholds import BROKEN_SPAN, BROKEN_STREAK, FLAKY_SPAN, NEAR_SPAN
from indexing.health.verdicts import Outcome

# The rules use this many of the newest verdicts one by one, and as many are shown.
KEPT_VERDICTS: Final = max(BROKEN_STREAK, BROKEN_SPAN, FLAKY_SPAN, NEAR_SPAN)


class RecentVerdict(Protocol):
    """One of the newest verdicts; `day` is the UTC day of its first execution, from 1970 on.

    A flaky verdict always `stood_alone`. Another verdict stood alone if the nearest verdicts before
    and after it that are not flaky agree with each other and not with it.
    """

    @property
    def outcome(self) -> Outcome: ...
    @property
    def day(self) -> int: ...
    @property
    def stood_alone(self) -> bool: ...


class WindowVerdict(NamedTuple):
    """A recent verdict, by its executions in the window only."""

    outcome: Outcome
    day: int
    stood_alone: bool


class DayOfSequence(NamedTuple):
    """The verdicts whose first execution was on one UTC day, and how many of them stood alone."""

    day: int
    passed: int
    failed: int
    flaky: int
    stood_alone: int

    @property
    def verdicts(self) -> int:
        return self.passed + self.failed + self.flaky


@dataclass(frozen=True, slots=True)
class SequenceState:
    """The days in the window with a verdict, and the newest verdicts of the window.

    Both are sorted, oldest first. There are at least one and at most `KEPT_VERDICTS` newest ones.
    """

    days: Sequence[DayOfSequence]
    newest: Sequence[RecentVerdict]
