"""The rule for flakiness of sequences that run often: on how many days a result stood alone. Pure.

It counts days, not results, because an outage or a recurring regression causes many changes from
pass to fail within hours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import count

from indexing.health.sequences import SequenceState
from indexing.health.thresholds import (
    ALONE_DAYS,
    DENSE_VERDICTS_A_DAY,
    MENDED_GAPS,
    NEAR_DAYS,
    NEAR_SPAN,
    WINDOW,
)
from indexing.health.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The days of the window on which results of a sequence stood alone (`alone`).

    `near` is the number of days with such a result among the newest `NEAR_SPAN` verdicts. `days`
    are all days with a verdict. `quiet` is how many of these come after the last day with a failed
    or flaky verdict.
    """

    alone: tuple[int, ...]
    near: int
    days: tuple[int, ...]
    quiet: int

    @property
    def recurs(self) -> bool:
        """Whether results stood alone often enough, whether or not the test was mended since."""
        return len(self.alone) >= ALONE_DAYS or self.near >= NEAR_DAYS

    @property
    def is_flaky(self) -> bool:
        """Whether results stood alone often enough, and the test was not mended since."""
        if not self.recurs:
            return False
        # Days with a verdict, up to the last one on which a result stood alone.
        active = bisect_right(self.days, self.alone[-1])
        return self.quiet * len(self.alone) < MENDED_GAPS * active

    def after(self, later: int) -> Recurrence:
        """Return the state after `later` more days, at least one, with passed verdicts only."""
        newest = self.days[-1]
        days = (*self.days, *range(newest + 1, newest + later + 1))
        start = days[-1] - WINDOW.days + 1
        alone = self.alone[bisect_left(self.alone, start) :]
        return Recurrence(
            alone=alone,
            # A day of a dense sequence has at least 10 verdicts, so after two days without a
            # failure, none of the newest 20 verdicts failed.
            near=min(self.near, len(alone)) if later * DENSE_VERDICTS_A_DAY < NEAR_SPAN else 0,
            days=days[bisect_left(days, start) :],
            quiet=self.quiet + later,
        )


def count_days_to_clear(state: SequenceState) -> int:
    """Return after how many more days with many verdicts and no failure it is not flaky."""
    found = measure(state)
    if not found.is_flaky:
        return 0
    found = _settle_newest(state, found)
    return next(later for later in count(1) if not found.after(later).is_flaky)


def _settle_newest(state: SequenceState, found: Recurrence) -> Recurrence:
    """Count the newest verdict as one that stands alone if it will do so with the next pass."""
    clean = [seen for seen in state.newest if seen.outcome is not Outcome.FLAKY][-2:]
    if [seen.outcome for seen in clean] != [Outcome.PASSED, Outcome.FAILED]:
        return found
    near = {seen.day for seen in state.newest[-NEAR_SPAN:] if seen.stood_alone}
    day = clean[-1].day
    alone = tuple(sorted({*found.alone, day}))
    return replace(found, alone=alone, near=len({*near, day}))


def is_dense(state: SequenceState) -> bool:
    """Return whether a sequence runs so often that the rule of this module applies."""
    verdicts = 0
    for _, passed, failed, flaky, _ in state.days:
        verdicts += passed + failed + flaky
    return verdicts >= DENSE_VERDICTS_A_DAY * len(state.days)


def measure(state: SequenceState) -> Recurrence:
    """Return the values of a sequence that the rule needs."""
    # The number of days after the last one with a failed or flaky verdict.
    quiet = 0
    for _, _, failed, flaky, _ in reversed(state.days):
        if failed or flaky:
            break
        quiet += 1
    return Recurrence(
        alone=tuple([row.day for row in state.days if row.stood_alone]),
        near=len({seen.day for seen in state.newest[-NEAR_SPAN:] if seen.stood_alone}),
        days=tuple([row.day for row in state.days]),
        quiet=quiet,
    )
