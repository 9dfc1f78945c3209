"""Counts the executions of a roll-up in a window, for the metrics of a search row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from indexing.health.rollups import FAILED, PASSED, DailyRollup, Rollup
from indexing.health.sequences import KEPT_VERDICTS
from indexing.health.verdicts import Outcome
from indexing.health.window import day_number
from indexing.models.tests import HealthStatus, TestMetrics
from indexing.timestamps import DAY_MICROSECONDS, moment_or_none

_SECOND: Final = 1_000_000
_FLAKY: Final = Outcome.FLAKY.value
_OUTCOMES: Final = {PASSED: Outcome.PASSED.value, FAILED: Outcome.FAILED.value}
# The sums of no days: from the passed executions of `DailyRollup` to its durations.
_NO_DAYS: Final = [0] * 11


class WindowCounts(NamedTuple):
    """The executions of one sequence in a window; times are microseconds since 1970.

    `mean_duration` is in seconds. `latest` are the outcomes of the newest verdicts, oldest first.
    It is empty if the window has no verdict. If all `is_clean`, no verdict in it failed, was flaky
    or stood alone, so the sequence is healthy.
    """

    executions: int
    failed: int
    passed_evidence: int
    failed_evidence: int
    verdicts: int
    flaky_verdicts: int
    mean_duration: float | None
    last_at: int | None
    last_failure_at: int | None
    latest: tuple[str, ...]
    is_clean: bool

    def measure(self, status: HealthStatus) -> TestMetrics:
        """Return the metrics of the row with this status."""
        return TestMetrics(
            health_status=status,
            executions_count=self.executions,
            failed_executions_count=self.failed,
            failure_ratio=ratio_of(
                self.failed_evidence, self.passed_evidence + self.failed_evidence
            ),
            flakiness_ratio=ratio_of(self.flaky_verdicts, self.verdicts),
            mean_duration=self.mean_duration,
            last_execution_at=moment_or_none(self.last_at),
            last_failure_at=moment_or_none(self.last_failure_at),
            latest_verdicts=self.latest,
        )


def count_window(rollup: Rollup, start: int) -> WindowCounts:
    """Count the executions in the window that begins with the day `start`.

    It must not begin before the window of the roll-up.
    """
    days = rollup.days
    if days[0].day < start:
        days = tuple([day for day in days if day.day >= start])
    counts = _NO_DAYS if not days else _sums_of(days)
    (
        passed,
        failed,
        skipped,
        passed_evidence,
        failed_evidence,
        *verdicts,
        alone,
        durations,
        total,
    ) = counts
    is_spread = any(spread.first_day < start for spread in rollup.spread)
    if is_spread:
        sequence = rollup.sequence_since(start)
        latest: tuple[str, ...] = ()
        verdicts = [0, 0, 0]
        if sequence is not None:
            latest = tuple([seen.outcome.value for seen in sequence.newest])
            verdicts = [
                sum(each) for each in zip(*[day[1:4] for day in sequence.days], strict=True)
            ]
    else:
        since = start * DAY_MICROSECONDS
        latest = tuple(
            [
                _OUTCOMES.get(results, _FLAKY)
                for first_at, _, _, results, _ in rollup.verdicts[-KEPT_VERDICTS:]
                if first_at >= since
            ]
        )
    _, failed_verdicts, flaky_verdicts = verdicts
    return WindowCounts(
        passed + failed + skipped,
        failed,
        passed_evidence,
        failed_evidence,
        sum(verdicts),
        flaky_verdicts,
        mean_duration(total, durations),
        _since(start, rollup.newest_at),
        _since(start, rollup.last_failure_at),
        latest,
        is_clean=not (failed_verdicts or flaky_verdicts or alone or is_spread),
    )


def _sums_of(days: Sequence[DailyRollup]) -> list[int]:
    """Return the sums of the counts of these days, in the order of their fields."""
    # To add up columns takes half the time of a loop over the days.
    return [sum(column) for column in islice(zip(*days, strict=True), 1, 1 + len(_NO_DAYS))]


def mean_duration(total: int, durations: int) -> float | None:
    """Return the mean in seconds of this many durations, with their sum in microseconds."""
    # Round to microseconds, because durations are stored in them.
    return round(total / durations / _SECOND, 6) if durations else None


def ratio_of(part: int, whole: int) -> float:
    """Return the share of a part in the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def _since(start: int, at: int | None) -> int | None:
    return at if at is not None and day_number(at) >= start else None
