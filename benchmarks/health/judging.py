"""Judges made-up histories at any moment, by the rule that counts days and by the other one.

It uses the service's own rules, but counts the days only once for a whole history.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from indexing.health.dense import measure
from indexing.health.sequences import (
    KEPT_VERDICTS,
    DayOfSequence,
    SequenceState,
    WindowVerdict,
)
from indexing.health.status import count_falls, is_broken
from indexing.health.thresholds import FLAKY_FALLS, WINDOW
from indexing.health.verdicts import Outcome

_OUTCOMES: Final = {"P": Outcome.PASSED, "F": Outcome.FAILED, "X": Outcome.FLAKY}

# Failures and the passes around them. Only the verdicts in these runs can be lone failures.
_TROUBLE: Final = re.compile("P{0,2}[^P](?:P{0,3}[^P])*P{0,2}")

Moment = tuple[int, int]
Rule = Callable[[SequenceState], bool]


def by_changes(state: SequenceState) -> bool:
    """Whether the rule for sequences that run rarely calls this one flaky."""
    if is_broken(state.newest):
        return False
    return any(day.flaky for day in state.days) or count_falls(state.newest) >= FLAKY_FALLS


def by_days(state: SequenceState) -> bool:
    """Whether the rule for sequences that run often calls this one flaky."""
    return not is_broken(state.newest) and measure(state).is_flaky


class History:
    """A history, prepared to be judged; all of its days have the same number of verdicts."""

    def __init__(self, days: Sequence[str]) -> None:
        self._size = len(days[0])
        self._letters = "".join(days)
        self._alone = {
            found.start() + index
            for found in _TROUBLE.finditer(self._letters)
            for index, alone in enumerate(
                _find_alone(
                    [_OUTCOMES[letter] for letter in found.group()],
                    Outcome.PASSED if found.start() else None,
                )
            )
            if alone
        }
        self._in_order = sorted(self._alone)
        self._days = [
            self._count(day, letters, self._alone_on(day)) for day, letters in enumerate(days)
        ]
        self._quiet = [letters.count("P") == self._size for letters in days]

    def is_flaky(self, rule: Rule, moment: Moment) -> bool:
        """Judge by the verdicts up to and including this moment."""
        day, _ = moment
        first = max(0, day - WINDOW.days + 1)
        if all(self._quiet[first : day + 1]):
            return False
        return rule(self._state(moment))

    def ends_of_days(self, first: int, last: int) -> Iterator[Moment]:
        """Yield the newest verdict of each day."""
        return ((day, self._size - 1) for day in range(first, last))

    def troubles(self, first: int, last: int) -> Iterator[Moment]:
        """Yield the moments at which a test may turn flaky: a failure, or the verdict after one."""
        for found in re.finditer("[^P]", self._letters[first * self._size : last * self._size]):
            at = first * self._size + found.start()
            yield divmod(at, self._size)
            if self._letters[at + 1 : at + 2] == "P" and at + 1 < last * self._size:
                yield divmod(at + 1, self._size)

    def _state(self, moment: Moment) -> SequenceState:
        day, index = moment
        at = day * self._size + index
        days = self._days[max(0, day - WINDOW.days + 1) : day]
        letters = self._letters[day * self._size : at + 1]
        alone = {known for known in self._alone_on(day) if known <= at}
        # Whether the newest verdict stands alone is known only from later ones.
        newest = self._newest_clean(at)
        alone.discard(newest)
        if newest in self._alone and newest // self._size < day:
            owner = newest // self._size - day
            days[owner] = days[owner]._replace(stood_alone=days[owner].stood_alone - 1)
        days.append(self._count(day, letters, alone))
        recent = [
            WindowVerdict(
                _OUTCOMES[self._letters[known]],
                known // self._size,
                known in self._alone and known != newest,
            )
            for known in range(max(0, at + 1 - KEPT_VERDICTS), at + 1)
        ]
        return SequenceState(days, recent)

    def _newest_clean(self, at: int) -> int:
        while at >= 0 and self._letters[at] == "X":
            at -= 1
        return at

    def _alone_on(self, day: int) -> set[int]:
        start = bisect_left(self._in_order, day * self._size)
        end = bisect_left(self._in_order, (day + 1) * self._size)
        return set(self._in_order[start:end])

    @staticmethod
    def _count(day: int, letters: str, alone: set[int]) -> DayOfSequence:
        return DayOfSequence(
            day, letters.count("P"), letters.count("F"), letters.count("X"), len(alone)
        )


def _find_alone(outcomes: Sequence[Outcome], before: Outcome | None) -> list[bool]:
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
