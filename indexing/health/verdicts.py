"""Turns executions into verdicts, and verdicts into sequences; knows no window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from indexing.health.observations import Observation
from indexing.models.executions import Conclusion


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
