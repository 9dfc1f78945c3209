"""The health history of a test by UTC days; only the changes are kept. Pure.

The health of a sequence at the end of a day is that of its daily roll-up; a day without an
execution changes nothing. The health of a test is the worst of its live sequences, each as of the
newest day on which it ran; it is also judged only on days with an execution. A sequence is live
here until `LIVE_DAYS` days after its last day with a result. The history is computed as if flaky
detection were on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from indexing.health.lasting_verdicts import (
    LastingVerdict,
    count_once,
    read_lasting,
    update_lasting,
)
from indexing.health.merging import InexactMergeError
from indexing.health.rollups import DailyRollup, Job, KeptVerdict
from indexing.health.status import WORST_FIRST
from indexing.health.thresholds import LIVE_FOR, WINDOW
from indexing.health.window import LIVE_MICROSECONDS
from indexing.models.tests import HealthStatus

LIVE_DAYS: Final = LIVE_FOR.days
# Changes that are more than this many days older than the newest execution are left out; so a range
# of 400 days that ended a year ago is complete. The last change before that is kept, because it
# gives the health at the start.
KEPT_DAYS: Final = 800

_VERSION: Final = 1
_WORST_FIRST: Final = tuple(status.value for status in WORST_FIRST)


class Change(NamedTuple):
    """The health from the end of this day on; `at` is when its newest execution finished."""

    day: int
    at: int
    health: str


class FlakyDay(NamedTuple):
    """The number of flaky verdicts that began on a day; at least one."""

    day: int
    verdicts: int


class Row(NamedTuple):
    """One change as a row for stores; without a job, it is about the test as a whole.

    `previous` is None for the first change. A row of flaky verdicts has no health.
    """

    job: Job | None
    day: int
    at: int = 0
    previous: str | None = None
    health: str | None = None
    verdicts: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """The changes of each sequence and of the test, and the flaky days; all oldest first.

    `lasting` has the flaky verdicts of each sequence that last for several days.
    """

    sequences: Mapping[Job, tuple[Change, ...]] = field(default_factory=dict)
    test: tuple[Change, ...] = ()
    flaky: Mapping[Job, tuple[FlakyDay, ...]] = field(default_factory=dict)
    lasting: Mapping[Job, tuple[LastingVerdict, ...]] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """Yield all rows: for each job and day at most one change and one row of flaky verdicts."""
        yield from _rows_of(None, self.test)
        for job, changes in self.sequences.items():
            yield from _rows_of(job, changes)
        for job, days in self.flaky.items():
            for flaky in days:
                yield Row(job, flaky.day, verdicts=flaky.verdicts)


def write_history(history: History) -> bytes:
    """Return a history as text, without its lasting verdicts; equal ones give equal text."""
    jobs = sorted({*history.sequences, *history.flaky})
    return orjson.dumps(
        [
            _VERSION,
            [tuple(change) for change in history.test],
            [
                [
                    *job,
                    [tuple(change) for change in history.sequences.get(job, ())],
                    [tuple(flaky) for flaky in history.flaky.get(job, ())],
                ]
                for job in jobs
            ],
        ]
    )


def read_history(text: bytes, lasting: bytes | None = None) -> History:
    """Parse the text from `write_history`, and the one from `write_lasting` if there is one.

    Raises:
        ValueError: a text is of another version.
    """
    version, test, jobs = orjson.loads(text)
    if version != _VERSION:
        raise ValueError(version)
    return History(
        {
            (pipeline, job): tuple([Change(*change) for change in changes])
            for pipeline, job, changes, _ in jobs
            if changes
        },
        tuple([Change(*change) for change in test]),
        {
            (pipeline, job): tuple([FlakyDay(*flaky) for flaky in days])
            for pipeline, job, _, days in jobs
            if days
        },
        {} if lasting is None else read_lasting(lasting),
    )


def build_history(
    before: History,
    days: Mapping[Job, Sequence[DailyRollup]],
    final_day: int,
    verdicts: Mapping[Job, Mapping[str, KeptVerdict]] | None = None,
) -> History:
    """Compute the history from every day of every sequence, oldest first.

    `verdicts` has every verdict of every sequence, by commit. Days up to `final_day` stay as they
    were in `before`, because retention has removed executions of them. So does the health of days
    whose window reaches back to them, except the newest day.
    """
    kept = _until(before, final_day)
    rows = {job: _after(of_job, final_day) for job, of_job in days.items()}
    settled_until = final_day + WINDOW.days - 1

    def settle(entries: tuple[Change, ...], day: int, newest: int, health: str) -> str:
        if day > settled_until or day == newest:
            return health
        stored = _health_at(entries, day)
        return health if stored is None else stored

    sequences = {
        job: [
            row._replace(
                health=settle(before.sequences.get(job, ()), row.day, of_job[-1].day, row.health)
            )
            for row in of_job
        ]
        if of_job and of_job[0].day <= settled_until
        else of_job
        for job, of_job in rows.items()
    }
    newest = max((of_job[-1].day for of_job in rows.values() if of_job), default=None)
    judged = (
        change._replace(health=settle(before.test, change.day, newest or 0, change.health))
        if change.day <= settled_until
        else change
        # A sequence may be live by an execution that retention has left on a final day.
        for change in _judge(days, final_day + 1)
    )
    lasting = {
        job: update_lasting(before.lasting.get(job, ()), of_job, final_day, is_whole=True)
        for job, of_job in (verdicts or {}).items()
    }
    return _trimmed(
        History(
            {
                job: _extended(kept.sequences.get(job, ()), _changes_of(sequences.get(job, ())))
                for job in {*kept.sequences, *sequences}
            },
            _extended(kept.test, judged),
            _with_flaky(kept.flaky, rows, lasting),
            {job: each for job, each in lasting.items() if each},
        ),
        newest,
    )


def merge_history(
    before: History,
    days: Mapping[Job, Sequence[DailyRollup]],
    merged: Mapping[Job, int],
    final_day: int,
    verdicts: Mapping[Job, Mapping[str, KeptVerdict]] | None = None,
) -> History:
    """Update the history after new executions were merged into the roll-ups.

    `days` has, for every sequence, the days of the window and those that changed, oldest first.
    `merged` has the oldest day of the new executions, for each sequence with some, and `verdicts`
    the flaky verdicts of their commits, by commit.

    Raises:
        InexactMergeError: the history has to be computed from all days.
    """
    if not merged:
        return before
    newest = max([of_job[-1].day for of_job in days.values() if of_job])
    first = max(min(merged.values()), final_day + 1)
    if first - LIVE_DAYS <= newest - WINDOW.days:
        # Whether a sequence was live may depend on days that are not in `days`.
        raise InexactMergeError
    sequences = {**before.sequences}
    for job, oldest in merged.items():
        since = max(oldest, final_day + 1)
        kept = _before(sequences.get(job, ()), since)
        sequences[job] = _extended(kept, _changes_of(_after(days[job], since - 1)))
    lasting = {**before.lasting}
    for job, of_job in (verdicts or {}).items():
        if of_job:
            lasting[job] = update_lasting(lasting.get(job, ()), of_job, final_day, is_whole=False)
    return _trimmed(
        History(
            sequences,
            _extended(_before(before.test, first), _judge(days, first)),
            _with_flaky(
                before.flaky, {job: _after(days[job], final_day) for job in merged}, lasting
            ),
            {job: each for job, each in lasting.items() if each},
        ),
        newest,
    )


def _before(changes: tuple[Change, ...], day: int) -> tuple[Change, ...]:
    if not changes or changes[-1].day < day:
        return changes
    return tuple([change for change in changes if change.day < day])


def _after(days: Sequence[DailyRollup], day: int) -> Sequence[DailyRollup]:
    if not days or days[0].day > day:
        return days
    # Most often, only the newest days are left.
    place = len(days)
    while days[place - 1].day > day:
        place -= 1
    return days[place:]


def _rows_of(job: Job | None, changes: Sequence[Change]) -> Iterator[Row]:
    previous = None
    for change in changes:
        yield Row(job, change.day, change.at, previous, change.health)
        previous = change.health


def _changes_of(rows: Iterable[DailyRollup]) -> Iterator[Change]:
    """Yield a change for the first day, and for each day on which the health changed."""
    health = None
    for row in rows:
        if row.health != health:
            health = row.health
            yield Change(row.day, row.last_at, health)


def _extended(kept: Sequence[Change], judged: Iterable[Change]) -> tuple[Change, ...]:
    """Append to `kept` those later days on which the health changed."""
    changes = list(kept)
    health = changes[-1].health if changes else None
    for each in judged:
        if each.health != health:
            changes.append(each)
            health = each.health
    return tuple(changes)


def _judge(days: Mapping[Job, Sequence[DailyRollup]], first: int) -> Iterator[Change]:
    """Yield the health of the test at the end of each day with an execution, from `first` on."""
    if len(days) == 1:
        # A shortcut, because most tests run in one job only.
        (rows,) = days.values()
        only = _Begun(rows)
        for row in _after(rows, first - 1):
            # A day with a result of the only sequence has the health of that sequence.
            has_result = row.passed_evidence or row.failed_evidence
            health = row.health if has_result else only.health_if_live(row.day, row.last_at)
            yield Change(row.day, row.last_at, health or HealthStatus.UNKNOWN.value)
        return
    ran: dict[int, int] = {}
    for of_job in days.values():
        for row in reversed(of_job):
            if row.day < first:
                break
            ran[row.day] = max(ran.get(row.day, row.last_at), row.last_at)
    begun = [_Begun(of_job) for of_job in days.values()]
    for day in sorted(ran):
        live = {of_job.health_if_live(day, ran[day]) for of_job in begun}
        worst = next((health for health in _WORST_FIRST if health in live), None)
        yield Change(day, ran[day], worst or HealthStatus.UNKNOWN.value)


class _Begun:
    """A position in the days of a sequence, which only moves forwards."""

    def __init__(self, days: Sequence[DailyRollup]) -> None:
        self._days = days
        self._end = 0

    def health_if_live(self, day: int, newest_at: int) -> str | None:
        """Return the health of the sequence on a day; None if it is not live.

        `newest_at` is when the newest execution of the test finished.
        """
        days, end = self._days, self._end
        while end < len(days) and days[end].day <= day:
            end += 1
        self._end = end
        for place in range(end - 1, -1, -1):
            row = days[place]
            if row.last_at < newest_at - LIVE_MICROSECONDS:
                return None
            if row.passed_evidence or row.failed_evidence:
                return days[end - 1].health
        return None


def _health_at(changes: Sequence[Change], day: int) -> str | None:
    place = bisect_right(changes, day, key=lambda change: change.day)
    return changes[place - 1].health if place else None


def _until(history: History, day: int) -> History:
    return History(
        {
            job: tuple(change for change in changes if change.day <= day)
            for job, changes in history.sequences.items()
        },
        tuple(change for change in history.test if change.day <= day),
        {
            job: tuple(flaky for flaky in days if flaky.day <= day)
            for job, days in history.flaky.items()
        },
    )


def _with_flaky(
    before: Mapping[Job, tuple[FlakyDay, ...]],
    days: Mapping[Job, Sequence[DailyRollup]],
    lasting: Mapping[Job, Sequence[LastingVerdict]],
) -> dict[Job, tuple[FlakyDay, ...]]:
    flaky = dict(before)
    for job, of_job in days.items():
        if not (job in flaky or job in lasting or any(row.flaky_verdicts for row in of_job)):
            continue
        counts = {each.day: each.verdicts for each in before.get(job, ())}
        rows = count_once(of_job, lasting.get(job, ()))
        counts |= {row.day: row.flaky_verdicts for row in rows}
        flaky[job] = tuple(FlakyDay(day, counts[day]) for day in sorted(counts) if counts[day])
    return flaky


def _trimmed(history: History, newest: int | None) -> History:
    """Leave out old changes, and sequences that have none left."""
    start = None if newest is None else newest - KEPT_DAYS
    return History(
        {job: kept for job, each in history.sequences.items() if (kept := _since(each, start))},
        _since(history.test, start),
        {
            job: recent
            for job, days in history.flaky.items()
            if (recent := tuple(each for each in days if start is None or each.day >= start))
        },
        history.lasting,
    )


def _since(changes: tuple[Change, ...], start: int | None) -> tuple[Change, ...]:
    if start is None or not changes or changes[0].day >= start:
        return changes
    place = bisect_right(changes, start, key=lambda change: change.day)
    return changes[max(place - 1, 0) :]
