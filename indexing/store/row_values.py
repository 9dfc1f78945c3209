"""Converts the metrics of a search row to and from their stored form. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from indexing.models.tests import HEALTH_NUMBERS, NO_VALUE, TestMetrics
from indexing.timestamps import microseconds_or_none, moment_or_none

_SECOND: Final = 1_000_000
_LETTERS: Final = {"passed": "p", "failed": "f", "flaky": "x"}
_VERDICTS: Final = {letter: verdict for verdict, letter in _LETTERS.items()}
_STATUSES: Final = {number: status for status, number in HEALTH_NUMBERS.items()}


class RowValues(NamedTuple):
    """The stored metrics of a search row; each sort order is named like its field.

    The last two are only shown, not sorted by. `health_status` is a number of `HEALTH_NUMBERS`.
    Durations and times are in microseconds; a missing one is `NO_VALUE`, except for
    `last_execution_at`. `latest_verdicts` has one letter for each verdict.
    """

    executions_count: int
    health_status: int
    failed_executions_count: int
    failure_ratio: float
    flakiness_ratio: float
    mean_duration: int
    last_failure_at: int
    last_execution_at: int | None
    latest_verdicts: str

    @classmethod
    def of(cls, metrics: TestMetrics) -> RowValues:
        duration = metrics.mean_duration
        failed_at = microseconds_or_none(metrics.last_failure_at)
        return cls(
            metrics.executions_count,
            HEALTH_NUMBERS[metrics.health_status],
            metrics.failed_executions_count,
            metrics.failure_ratio,
            metrics.flakiness_ratio,
            NO_VALUE if duration is None else round(duration * _SECOND),
            NO_VALUE if failed_at is None else failed_at,
            microseconds_or_none(metrics.last_execution_at),
            "".join([_LETTERS[verdict] for verdict in metrics.latest_verdicts]),
        )

    def metrics(self, *, is_quarantined: bool) -> TestMetrics:
        """Convert the values back to metrics."""
        duration, failed_at = self.mean_duration, self.last_failure_at
        return TestMetrics(
            health_status=_STATUSES[self.health_status],
            executions_count=self.executions_count,
            failed_executions_count=self.failed_executions_count,
            failure_ratio=self.failure_ratio,
            flakiness_ratio=self.flakiness_ratio,
            mean_duration=None if duration == NO_VALUE else duration / _SECOND,
            last_execution_at=moment_or_none(self.last_execution_at),
            last_failure_at=None if failed_at == NO_VALUE else moment_or_none(failed_at),
            latest_verdicts=tuple([_VERDICTS[letter] for letter in self.latest_verdicts]),
            is_quarantined=is_quarantined,
        )
