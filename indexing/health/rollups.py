"""Roll-ups: summaries of the executions of one test in one (pipeline, job). Frozen values.

They contain everything that the rules need, and that merging new executions needs, so an upload
does not read old executions again. Times are microseconds and days are numbers, both since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from indexing.health.sequences import (
    KEPT_VERDICTS,
    DayOfSequence,
    RecentVerdict,
    SequenceState,
    WindowVerdict,
)
from indexing.health.verdicts import Outcome
from indexing.models.executions import Conclusion
from indexing.models.tests import METADATA_FIELDS, HealthStatus
from indexing.timestamps import DAY_MICROSECONDS

# (pipeline, job)
Job = tuple[str, str]

# Bits for the results of a verdict. A verdict with several bits, or with `RETRIED`, is flaky: its
# results are greater than `FAILED`, and those of no other verdict are.
PASSED: Final = 1
FAILED: Final = 2
RETRIED: Final = 4

# The tie-break between executions that finished at the same time, as all results of one report may
# have the time of its start. The one that needs attention counts as the newer one.
ATTENTION: Final = {Conclusion.SKIPPED: 0, Conclusion.PASSED: 1, Conclusion.FAILED: 2}

_FLAKY: Final = Outcome.FLAKY
# Makes a named tuple in half the time of a call of its class.
_new: Final = tuple.__new__
_verdicts_of: Final = attrgetter(
    "day", "passed_verdicts", "failed_verdicts", "flaky_verdicts", "stood_alone"
)
_OUTCOMES: Final = {PASSED: Outcome.PASSED, FAILED: Outcome.FAILED}


class DailyRollup(NamedTuple):
    """The executions of one UTC day, and the verdicts whose first execution was on that day.

    `passed`, `failed` and `skipped` count all executions, the `_evidence` fields only those outside
    infrastructure failures. A day has `first_evidence` and `last_evidence` if an execution failed
    or needed retries, outside infrastructure failures. `health` is that of the sequence at the end
    of the day, by the executions until then and with flaky detection on. Durations are in
    microseconds, so that their sum does not depend on an order.
    """

    day: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    passed_evidence: int = 0
    failed_evidence: int = 0
    passed_verdicts: int = 0
    failed_verdicts: int = 0
    flaky_verdicts: int = 0
    stood_alone: int = 0
    durations: int = 0
    total_duration: int = 0
    longest_duration: int = 0
    first_evidence: int | None = None
    last_evidence: int | None = None
    last_at: int = 0
    health: str = HealthStatus.UNKNOWN.value


class Verdicts(Protocol):
    """The verdicts that began on one day: of a `DailyRollup` or an `OpenDay`."""

    @property
    def day(self) -> int: ...
    @property
    def passed_verdicts(self) -> int: ...
    @property
    def failed_verdicts(self) -> int: ...
    @property
    def flaky_verdicts(self) -> int: ...
    @property
    def stood_alone(self) -> int: ...


class KeptVerdict(NamedTuple):
    """One verdict, by all of its executions outside infrastructure failures.

    `results` has their bits.
    """

    first_at: int
    last_at: int
    commit: str
    results: int
    stood_alone: bool

    @property
    def outcome(self) -> Outcome:
        return _OUTCOMES.get(self.results, _FLAKY)

    @property
    def day(self) -> int:
        """The UTC day of its first execution."""
        return self.first_at // DAY_MICROSECONDS

    @property
    def key(self) -> tuple[int, str]:
        """The sort key of a sequence."""
        return self.first_at, self.commit


class Part(NamedTuple):
    """The executions of one verdict on one UTC day."""

    day: int
    first_at: int
    results: int


class SpreadVerdict(NamedTuple):
    """A verdict with executions on several days, with a part for each day.

    The rules count only executions in the window, so a verdict that began before the window counts
    with its parts inside. Parts before the window are left out. If the last day has executions at
    different times, a second part of that day begins with the newest one: only kept verdicts have
    their `last_at`, and earlier releases cannot read parts with a further field.
    """

    commit: str
    first_day: int
    parts: tuple[Part, ...]


# The newest value of a field of the metadata, and when it was stated.
Stated = tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Rollup:
    """The executions of one test in one (pipeline, job) on the default branch; at least one.

    `days` are those of the window that ends with its newest execution. `verdicts` are the newest
    `KEPT_VERDICTS`, oldest first, and before them the newest two others that are not flaky, because
    whether a verdict stood alone depends on its neighbours. With `has_older`, there were more
    before these. `evidence_at` is when the newest execution that is part of a verdict finished.
    `last_failure_at` is when the newest failed one finished, infrastructure failures included.
    """

    newest_at: int
    last_conclusion: Conclusion
    evidence_at: int | None
    days: tuple[DailyRollup, ...]
    verdicts: tuple[KeptVerdict, ...]
    has_older: bool
    spread: tuple[SpreadVerdict, ...]
    metadata: tuple[Stated, ...] = (None,) * len(METADATA_FIELDS)
    last_failure_at: int | None = None

    def sequence_since(self, start: int) -> SequenceState | None:
        """Return the sequence in the window that begins with the day `start`.

        None if it has no verdict. The window must not begin before that of this roll-up.
        """
        days = [
            counted
            for counted in map(day_of_sequence, self.days)
            if counted[0] >= start and (counted[1] or counted[2] or counted[3])
        ]
        since = start * DAY_MICROSECONDS
        newest = [v for v in self.verdicts[-KEPT_VERDICTS:] if v.first_at >= since]
        if any(spread.first_day < start for spread in self.spread):
            return with_spread(days, newest, [v.key for v in newest], self.spread, start)
        return SequenceState(days, newest) if newest else None


class Merged(NamedTuple):
    """The result of a merge.

    `rollup` is None if there is no execution. `days` are those that changed, oldest first.
    `verdicts` are the flaky ones of the merged commits, by commit; in a full computation they are
    all verdicts.
    """

    rollup: Rollup | None
    days: Sequence[DailyRollup]
    verdicts: Mapping[str, KeptVerdict]


def find_newest(rollups: Iterable[Rollup]) -> Rollup:
    """Return the roll-up with the newest execution; among equals, the one that needs attention."""
    return max(rollups, key=lambda each: (each.newest_at, ATTENTION[each.last_conclusion]))


def outcome_of(results: int) -> Outcome:
    """Return the outcome of a verdict with these bits."""
    return _OUTCOMES.get(results, _FLAKY)


def day_of_sequence(day: Verdicts) -> DayOfSequence:
    """Return the counts of the verdicts that began on that day."""
    # Each judgement of a sequence with a failure does this for all days of the window.
    return _new(DayOfSequence, _verdicts_of(day))


def with_spread(
    days: list[DayOfSequence],
    newest: Sequence[RecentVerdict],
    keys: list[tuple[int, str]],
    spread: tuple[SpreadVerdict, ...],
    start: int,
) -> SequenceState | None:
    """Return a sequence with verdicts that began before the window, by their executions inside.

    `keys` has the sort key of each of the newest verdicts.
    """
    by_day = {day.day: day for day in days}
    placed: list[tuple[tuple[int, str], RecentVerdict]] = list(zip(keys, newest, strict=True))
    for first_at, commit, day, results in cut_spread(spread, start):
        outcome = outcome_of(results)
        flaky = outcome is Outcome.FLAKY
        before = by_day.get(day, DayOfSequence(day, 0, 0, 0, 0))
        by_day[day] = DayOfSequence(
            day,
            before.passed + (outcome is Outcome.PASSED),
            before.failed + (outcome is Outcome.FAILED),
            before.flaky + flaky,
            before.stood_alone + flaky,
        )
        placed.append(((first_at, commit), WindowVerdict(outcome, day, flaky)))
    placed.sort(key=lambda each: each[0])
    recent = [verdict for _, verdict in placed[-KEPT_VERDICTS:]]
    return SequenceState([by_day[day] for day in sorted(by_day)], recent) if recent else None


def cut_spread(
    spread: tuple[SpreadVerdict, ...], start: int
) -> Iterator[tuple[int, str, int, int]]:
    """Yield the part inside the window of each verdict that began before it.

    Each is (time of its first execution there, commit, day, results).
    """
    for verdict in spread:
        parts = [part for part in verdict.parts if part.day >= start]
        if verdict.first_day < start and parts:
            results = 0
            for part in parts:
                results |= part.results
            first = min(parts)
            yield first.first_at, verdict.commit, first.day, results
