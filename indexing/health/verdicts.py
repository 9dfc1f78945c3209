"""Turns executions into verdicts, and one job's verdicts into its status; knows no window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import pairwise

from indexing.health.observations import Observation
from indexing.health.thresholds import (
    BROKEN_FAILED_IN_SPAN,
    BROKEN_SPAN,
    BROKEN_STREAK,
    FLAKY_CHANGES,
    FLAKY_SPAN,
)
from indexing.models.executions import Conclusion
from indexing.models.tests import HealthStatus


class Outcome(Enum):
    """The combined result of all executions of one test on one commit in one job."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one commit in one job, and when its first and last execution finished."""

    first_at: datetime
    last_at: datetime
    commit: str
    outcome: Outcome


def gather_sequences(
    observations: Iterable[Observation],
) -> Mapping[tuple[str, str], Sequence[Verdict]]:
    """Return the verdicts of each (pipeline, job), sorted by first execution, then by commit.

    Skips are no evidence: a commit with skips alone has no verdict.
    """
    groups: dict[tuple[str, str], dict[str, list[Observation]]] = {}
    for seen in observations:
        if seen.conclusion is not Conclusion.SKIPPED:
            commits = groups.setdefault((seen.pipeline_name, seen.job_name), {})
            commits.setdefault(seen.commit, []).append(seen)
    return {
        job: sorted(
            (_judge_commit(commit, seen) for commit, seen in commits.items()),
            key=lambda verdict: (verdict.first_at, verdict.commit),
        )
        for job, commits in groups.items()
    }


def judge_sequence(verdicts: Sequence[Verdict], *, flaky_detection: bool) -> HealthStatus:
    """Return the status of one job from its verdicts: at least one, oldest first."""
    if _is_broken(verdicts):
        return HealthStatus.BROKEN
    if flaky_detection and _is_flaky(verdicts):
        return HealthStatus.FLAKY
    return HealthStatus.HEALTHY


def _judge_commit(commit: str, executions: Sequence[Observation]) -> Verdict:
    # A fast path: nearly all commits have one execution, and this runs for every commit of a test.
    if len(executions) == 1:
        only = executions[0]
        if only.conclusion is Conclusion.FAILED:
            return Verdict(only.finished_at, only.finished_at, commit, Outcome.FAILED)
        outcome = Outcome.FLAKY if only.needed_retries else Outcome.PASSED
        return Verdict(only.finished_at, only.finished_at, commit, outcome)
    conclusions = {seen.conclusion for seen in executions}
    if len(conclusions) > 1:
        outcome = Outcome.FLAKY
    elif Conclusion.FAILED in conclusions:
        outcome = Outcome.FAILED
    elif any(seen.needed_retries for seen in executions):
        outcome = Outcome.FLAKY
    else:
        outcome = Outcome.PASSED
    moments = [seen.finished_at for seen in executions]
    return Verdict(min(moments), max(moments), commit, outcome)


def _is_broken(verdicts: Sequence[Verdict]) -> bool:
    failed = [verdict.outcome is Outcome.FAILED for verdict in verdicts[-BROKEN_SPAN:]]
    if not failed[-1]:
        return False
    return all(failed[-BROKEN_STREAK:]) or sum(failed) >= BROKEN_FAILED_IN_SPAN


def _is_flaky(verdicts: Sequence[Verdict]) -> bool:
    steady = [verdict.outcome for verdict in verdicts if verdict.outcome is not Outcome.FLAKY]
    if len(steady) < len(verdicts):
        return True
    recent = steady[-FLAKY_SPAN:]
    changes = sum(
        before is Outcome.PASSED and after is Outcome.FAILED for before, after in pairwise(recent)
    )
    return changes >= FLAKY_CHANGES
