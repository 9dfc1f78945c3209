"""A daily roll-up that is being changed: counts executions and verdicts into one UTC day. Pure."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from indexing.health.observations import Observation
from indexing.health.rollups import FAILED, PASSED, RETRIED, DailyRollup
from indexing.models.executions import Conclusion
from indexing.models.trends import MAX_TOTAL_DURATION, duration_of

_values: Final = attrgetter(*DailyRollup._fields)
_SKIPPED: Final = Conclusion.SKIPPED
_FAILED: Final = Conclusion.FAILED


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
        return DailyRollup._make(_values(self))

    def count_execution(self, seen: Observation) -> int:
        """Count an execution of this day; return the bit that it adds to its verdict.

        Skipped executions and infrastructure failures add none and return 0.
        """
        at = seen.at
        if at > self.last_at or not self.passed + self.failed + self.skipped:
            self.last_at = at
        duration = duration_of(seen.duration)
        if duration is not None:
            self.durations += 1
            self.total_duration = min(self.total_duration + duration, MAX_TOTAL_DURATION)
            self.longest_duration = max(self.longest_duration, duration)
        if seen.conclusion is _SKIPPED:
            self.skipped += 1
            return 0
        if seen.conclusion is _FAILED:
            self.failed += 1
            bit = FAILED
        else:
            self.passed += 1
            bit = RETRIED if seen.needed_retries else PASSED
        if seen.infrastructure_failure:
            return 0
        if bit == FAILED:
            self.failed_evidence += 1
        else:
            self.passed_evidence += 1
        if bit != PASSED:
            first, last = self.first_evidence, self.last_evidence
            self.first_evidence = at if first is None or at < first else first
            self.last_evidence = at if last is None or at > last else last
        return bit

    def count_verdict(self, results: int, by: int) -> None:
        """Add `by` (1 or -1) to the count of verdicts with these results that began on this day."""
        if results == PASSED:
            self.passed_verdicts += by
        elif results == FAILED:
            self.failed_verdicts += by
        else:
            self.flaky_verdicts += by
