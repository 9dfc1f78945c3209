"""The state of one sequence that the rules need: its days, and its newest verdicts. Pure.

Roll-ups keep the same values, so a sequence is judged equally from its executions and from its
roll-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from indexing.health.thresholds import BROKEN_SPAN, BROKEN_STREAK, FLAKY_SPAN, NEAR_SPAN
from indexing.health.verdicts import Outcome, Verdict
from indexing.health.window import day_of

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


def summarise(verdicts: Sequence[Verdict], before: Outcome | None = None) -> SequenceState:
    """Return the state of a sequence from its verdicts in the window: at least one, oldest first.

    `before` is the outcome of the newest verdict before them that is not flaky, if there is one.
    """
    alone = find_alone([verdict.outcome for verdict in verdicts], before)
    judged = [
        WindowVerdict(verdict.outcome, day_of(verdict.first_at), stood_alone)
        for verdict, stood_alone in zip(verdicts, alone, strict=True)
    ]
    return SequenceState(count_days(judged), judged[-KEPT_VERDICTS:])


def find_alone(outcomes: Sequence[Outcome], before: Outcome | None = None) -> list[bool]:
    """Return for each verdict of a sequence, oldest first, whether it stood alone.

    The newest verdict that is not flaky never does, because no later one follows. `before` is the
    outcome of the newest verdict before these that is not flaky.
    """
    alone = [outcome is Outcome.FLAKY for outcome in outcomes]
    earlier, last, at = None, before, -1
    for index, outcome in enumerate(outcomes):
        if outcome is Outcome.FLAKY:
            continue
        # `at` is negative while the verdict in the middle is `before` itself.
        if earlier is outcome and last is not outcome and at >= 0:
            alone[at] = True
        earlier, last, at = last, outcome, index
    return alone


def count_days(verdicts: Iterable[RecentVerdict]) -> list[DayOfSequence]:
    """Count these verdicts by day; return the days, oldest first."""
    outcomes: dict[int, list[Outcome]] = {}
    alone: dict[int, int] = {}
    for verdict in verdicts:
        outcomes.setdefault(verdict.day, []).append(verdict.outcome)
        alone[verdict.day] = alone.get(verdict.day, 0) + verdict.stood_alone
    return [
        DayOfSequence(
            day,
            passed=found.count(Outcome.PASSED),
            failed=found.count(Outcome.FAILED),
            flaky=found.count(Outcome.FLAKY),
            stood_alone=alone[day],
        )
        for day, found in sorted(outcomes.items())
    ]
