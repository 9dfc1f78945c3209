"""Builds daily series of a repository, by UTC day, from the sums that a store returns."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from indexing.errors import StoreUnavailableError
from indexing.health.window import day_of
from indexing.models.paging import Anchor
from indexing.models.quarantines import ChangeAction, QuarantineChangeKey, QuarantineQuery
from indexing.models.tests import HealthStatus
from indexing.models.trends import DayQuery, DaySums, DaySumsOfTest, HealthCounts, Stat, TestStat
from indexing.store.interface import Reader
from indexing.timestamps import EPOCH, LATEST

# The series that count tests at the end of each day, with the health that they count; None counts
# all tests.
_HEALTH: Final[Mapping[Stat, HealthStatus | None]] = {
    Stat.TOTAL_TESTS: None,
    Stat.HEALTHY_TESTS: HealthStatus.HEALTHY,
    Stat.FLAKY_TESTS: HealthStatus.FLAKY,
    Stat.BROKEN_TESTS: HealthStatus.BROKEN,
    Stat.UNKNOWN_TESTS: HealthStatus.UNKNOWN,
}
# The index of each count in `DaySumsOfTest`.
_COUNTS_OF_TEST: Final[Mapping[TestStat, int]] = {
    TestStat.SUCCESS_COUNT: 0,
    TestStat.FAILURE_COUNT: 1,
    TestStat.SKIPPED_COUNT: 2,
    TestStat.FLAKY_COUNT: 3,
}
# The series that can be filtered by pipeline and job.
OF_EXECUTIONS: Final = frozenset(Stat) - {*_HEALTH, Stat.QUARANTINED_TESTS}

_CHANGES_A_PAGE: Final = 500
# The time limit for counting quarantines: it reads all changes since the first day, which may be
# any number.
_SECONDS: Final = 5.0

# Counts the tests by their health, as `Reader.count_health` does.
CountHealth = Callable[[DayQuery], Awaitable[HealthCounts]]
# A value of a series; None if it is unknown.
Figure = int | float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One UTC day; `end` is the first moment after it."""

    start: datetime
    end: datetime
    value: Figure


@dataclass(frozen=True, slots=True)
class Series:
    """The figure of each day, and one figure over all days or at the end of the last one."""

    stat: Stat | TestStat
    value: Figure
    value_over_time: Sequence[Bar]


async def read_series(
    reader: Reader, count_health: CountHealth, stat: Stat, query: DayQuery, now: datetime
) -> Series:
    """Return a series with every day of the query; it is empty if the last day precedes the first.

    Series of tests by health are computed from the result of `count_health`, which they share.

    Raises:
        StoreUnavailableError: reading takes too long.
    """
    days = range(query.first_day, query.last_day + 1)
    figures: Sequence[Figure]
    if not days:
        return Series(stat, None, ())
    if stat in _HEALTH:
        settings = await reader.find_repository(query.repository)
        flaky_detection = settings is None or settings.flaky_detection
        counted = await count_health(query)
        figures = list(_count_tests(counted, days, _HEALTH[stat], flaky_detection=flaky_detection))
    elif stat is Stat.QUARANTINED_TESTS:
        figures = await _count_quarantined(reader, query, now)
    elif stat is Stat.FLAKY_VERDICTS:
        verdicts = await reader.count_flaky_verdicts(query)
        figures = [verdicts.get(day, 0) for day in days]
        return Series(stat, sum(verdicts.values()), _bars(days, figures))
    else:
        sums = await reader.sum_days(query)
        figures = [_figure_of(stat, sums.get(day, DaySums())) for day in days]
        whole = DaySums()
        for day in sorted(sums):
            whole = whole.plus(sums[day])
        return Series(stat, _figure_of(stat, whole), _bars(days, figures))
    return Series(stat, figures[-1], _bars(days, figures))


async def read_test_series(
    reader: Reader, stat: TestStat, query: DayQuery, test_id: uuid.UUID
) -> Series | None:
    """Return a series of one test, like `read_series`; `None` if the test is unknown.

    Days that retention has reached have no figure; the figure over all days covers the others.
    """
    days = range(query.first_day, query.last_day + 1)
    sums = await reader.sum_days_of_test(query, test_id)
    if sums is None:
        return None
    known = range(max(days.start, await reader.find_final_day() + 1), days.stop)
    figures = [
        _figure_of_test(stat, sums.get(day, DaySumsOfTest())) if day in known else None
        for day in days
    ]
    whole = DaySumsOfTest()
    for day in known:
        whole = whole.plus(sums.get(day, DaySumsOfTest()))
    return Series(stat, _figure_of_test(stat, whole) if known else None, _bars(days, figures))


def _figure_of_test(stat: TestStat, sums: DaySumsOfTest) -> Figure:
    if stat is TestStat.MEAN_DURATION:
        return sums.total_duration / sums.durations / 1_000_000 if sums.durations else None
    if stat is TestStat.MAX_DURATION:
        return sums.longest_duration / 1_000_000 if sums.durations else None
    return sums[_COUNTS_OF_TEST[stat]]


def _figure_of(stat: Stat, sums: DaySums) -> Figure:
    if stat is Stat.EXECUTIONS:
        return sums.executions
    if stat is Stat.FAILED_EXECUTIONS:
        return sums.failed
    if stat is Stat.SKIPPED_EXECUTIONS:
        return sums.skipped
    return sums.total_duration / sums.durations / 1_000_000 if sums.durations else None


def _count_tests(
    counted: HealthCounts,
    days: range,
    wanted: HealthStatus | None,
    *,
    flaky_detection: bool,
) -> Iterator[int]:
    """Yield the number of tests of that health at the end of each day."""
    counts = Counter(counted.before)
    for day in days:
        counts.update(counted.changes.get(day, {}))
        flaky = counts[HealthStatus.FLAKY.value]
        if wanted is None:
            yield counts.total()
        elif flaky_detection:
            yield counts[wanted.value]
        elif wanted is HealthStatus.HEALTHY:
            yield counts[wanted.value] + flaky
        else:
            yield 0 if wanted is HealthStatus.FLAKY else counts[wanted.value]


async def _count_quarantined(reader: Reader, query: DayQuery, now: datetime) -> list[Figure]:
    """Count the quarantined tests at the end of each day, from now backwards by undoing changes.

    Days before the newest one that retention has reached have None, as their changes are gone.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            return await _undo_changes(reader, query, now)
    except TimeoutError as error:
        raise StoreUnavailableError("counting quarantines takes too long") from error


async def _undo_changes(reader: Reader, query: DayQuery, now: datetime) -> list[Figure]:
    page = await reader.list_quarantines(QuarantineQuery(query.repository, now), Anchor(), None)
    tests = {row.key.id: row.test_name for row in page.rows}
    # The number of quarantines by test name; a test may have several.
    quarantines = Counter(tests.values())
    # Quarantines whose addition is undone: if their end date lies before it, it ended nothing.
    not_yet_added: set[uuid.UUID] = set()
    figures: dict[int, Figure] = {}
    day = query.last_day
    anchor: Anchor[QuarantineChangeKey] = Anchor()
    more = True
    while more and day >= query.first_day:
        changes = await reader.list_quarantine_changes(
            query.repository, now, anchor, _CHANGES_A_PAGE
        )
        for change in changes.rows:
            # `quarantines` is now the state after this change.
            while day >= query.first_day and day_of(change.key.at) <= day:
                figures[day] = len(quarantines)
                day -= 1
            if change.action is ChangeAction.UPDATED:
                continue
            if change.action is ChangeAction.EXPIRED and change.quarantine_id in not_yet_added:
                continue
            left = tests.pop(change.quarantine_id, None)
            if left is not None:
                quarantines[left] -= 1
                if not quarantines[left]:
                    del quarantines[left]
            if change.action is ChangeAction.ADDED:
                not_yet_added.add(change.quarantine_id)
            else:
                tests[change.quarantine_id] = change.test_name
                quarantines[change.test_name] += 1
        more = changes.has_next
        if changes.rows:
            anchor = Anchor(changes.rows[-1].key)
    figures.update(dict.fromkeys(range(query.first_day, day + 1), len(quarantines)))
    # Last, because retention may have removed changes in the meantime.
    known_from = await reader.find_final_day()
    return [
        figures[each] if each >= known_from else None
        for each in range(query.first_day, query.last_day + 1)
    ]


def _bars(days: range, figures: Sequence[Figure]) -> list[Bar]:
    ends = [_midnight(day) for day in range(days.start, days.stop + 1)]
    return [
        Bar(start, end, figure)
        for (start, end), figure in zip(pairwise(ends), figures, strict=True)
    ]


def _midnight(day: int) -> datetime:
    try:
        return EPOCH + timedelta(days=day)
    except OverflowError:
        return LATEST
