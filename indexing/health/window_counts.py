"""Counts the executions of a roll-up in a window, for the metrics of a search row. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from indexing.health.rollups import Rollup
from indexing.health.sequences import SequenceState
from indexing.health.window import day_number
from indexing.models.tests import HealthStatus, TestMetrics
from indexing.timestamps import moment_or_none

_SECOND: Final = 1_000_000


class WindowCounts(NamedTuple):
    """The executions of one sequence in a window; times are microseconds since 1970.

    `sequence` is None if the window has no verdict. `mean_duration` is in seconds.
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
    sequence: SequenceState | None

    def measure(self, status: HealthStatus) -> TestMetrics:
        """Return the metrics of the row with this status."""
        newest = () if self.sequence is None else self.sequence.newest
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
            latest_verdicts=tuple([seen.outcome.value for seen in newest]),
        )


def count_window(rollup: Rollup, start: int) -> WindowCounts:
    """Count the executions in the window that begins with the day `start`.

    It must not begin before the window of the roll-up.
    """
    executions = failed = passed_evidence = failed_evidence = durations = total = 0
    for day in rollup.days:
        if day.day >= start:
            executions += day.passed + day.failed + day.skipped
            failed += day.failed
            passed_evidence += day.passed_evidence
            failed_evidence += day.failed_evidence
            durations += day.durations
            total += day.total_duration
    sequence = rollup.sequence_since(start)
    verdicts = flaky = 0
    if sequence is not None:
        for counted in sequence.days:
            verdicts += counted.passed + counted.failed + counted.flaky
            flaky += counted.flaky
    return WindowCounts(
        executions=executions,
        failed=failed,
        passed_evidence=passed_evidence,
        failed_evidence=failed_evidence,
        verdicts=verdicts,
        flaky_verdicts=flaky,
        # Round to microseconds, because durations are stored in them.
        mean_duration=round(total / durations / _SECOND, 6) if durations else None,
        last_at=_since(start, rollup.newest_at),
        last_failure_at=_since(start, rollup.last_failure_at),
        sequence=sequence,
    )


def ratio_of(part: int, whole: int) -> float:
    """Return the share of a part in the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def _since(start: int, at: int | None) -> int | None:
    return at if at is not None and day_number(at) >= start else None
