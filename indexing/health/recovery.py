"""Decides whether a quarantined test has been healthy since its quarantine began. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from indexing.health.observations import Observation
from indexing.health.thresholds import RECOVERY_VERDICTS
from indexing.models.executions import Conclusion


@dataclass(frozen=True, slots=True)
class Recovery:
    """A summary of the executions since a quarantine began, on the branches that it covers.

    `passed` has the (pipeline, job, commit) of passed verdicts. Once there are enough of them, or
    one execution failed, they no longer matter and are dropped.
    """

    has_failed: bool = False
    has_enough: bool = False
    passed: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def is_recovered(self) -> bool:
        return self.has_enough and not self.has_failed

    def without_executions(self) -> Recovery:
        """Return what stays known when retention has removed executions: which verdicts passed.

        A failure is judged by the executions that are left.
        """
        return Recovery(has_enough=self.has_enough, passed=self.passed)

    def merge(self, observations: Iterable[Observation]) -> Recovery:
        """Return the summary with these executions added; adding one twice changes nothing."""
        has_failed, has_enough, passed = self.has_failed, self.has_enough, set(self.passed)
        for seen in observations:
            if seen.infrastructure_failure or seen.conclusion is Conclusion.SKIPPED:
                continue
            if seen.conclusion is Conclusion.FAILED or seen.needed_retries:
                has_failed = True
            else:
                passed.add((seen.pipeline_name, seen.job_name, seen.commit))
        if has_failed:
            return Recovery(has_failed=True)
        if has_enough or len(passed) >= RECOVERY_VERDICTS:
            return Recovery(has_enough=True)
        return Recovery(passed=frozenset(passed))
