"""A daily roll-up that is being changed: counts executions and verdicts into one UTC day. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from indexing.health.observations import Observation
from indexing.health.rollups import DailyRollup
from indexing.health.verdicts import Outcome
from indexing.models.executions import Conclusion
from indexing.models.trends import duration_of

_values: Final = attrgetter(*DailyRollup._fields)


class OpenDay:
    """The fields of `DailyRollup`, mutable: it changes with every execution."""

    __slots__ = DailyRollup._fields

    def __init__(self, rollup: DailyRollup) -> None:
        (
            self.day,
            self.passed,
            self.failed,
            self.skipped,
            self.passed_evidence,
            self.failed_evidence,
            self.passed_verdicts,
            self.failed_verdicts,
            self.flaky_verdicts,
            self.stood_alone,
            self.durations,
            self.total_duration,
            self.longest_duration,
            self.first_evidence,
            self.last_evidence,
            self.last_at,
            self.health,
        ) = rollup

    def close(self) -> DailyRollup:
        return DailyRollup(*_values(self))

    def count_execution(self, at: int, seen: Observation) -> None:
        """Count an execution that finished at this moment, in microseconds."""
        if not self.passed + self.failed + self.skipped or at > self.last_at:
            self.last_at = at
        duration = duration_of(seen.duration)
        if duration is not None:
            self.durations += 1
            self.total_duration += duration
            self.longest_duration = max(self.longest_duration, duration)
        if seen.conclusion is Conclusion.SKIPPED:
            self.skipped += 1
            return
        evidence = not seen.infrastructure_failure
        if seen.conclusion is Conclusion.FAILED:
            self.failed += 1
            self.failed_evidence += evidence
        else:
            self.passed += 1
            self.passed_evidence += evidence
        if evidence and (seen.conclusion is Conclusion.FAILED or seen.needed_retries):
            first, last = self.first_evidence, self.last_evidence
            self.first_evidence = at if first is None or at < first else first
            self.last_evidence = at if last is None or at > last else last

    def count_verdict(self, outcome: Outcome, by: int) -> None:
        """Count a verdict that began on this day, or one less if `by` is -1."""
        if outcome is Outcome.PASSED:
            self.passed_verdicts += by
        elif outcome is Outcome.FAILED:
            self.failed_verdicts += by
        else:
            self.flaky_verdicts += by
