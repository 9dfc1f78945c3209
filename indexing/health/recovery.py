"""Decides whether a quarantined test has been healthy since its quarantine began. Pure.

A test may have many quarantines, each of a branch pattern, and get many executions at once. So the
executions are summed up by branch, once for all of its quarantines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from indexing.globs import is_literal
from indexing.health.observations import Observation
from indexing.health.thresholds import RECOVERY_VERDICTS
from indexing.models.executions import Conclusion
from indexing.models.quarantines import covers_branch

# Before every time that a store can hold.
_NEVER: Final = -(2**63)

# The pipeline, job and commit of a verdict.
_Verdict = tuple[str, str, str]


class VerdictTimes(NamedTuple):
    """Executions of one verdict on one branch, without infrastructure failures.

    `passed_at` is when the newest pass without retries finished, `failed_at` when the newest
    failure or pass after retries did; each is None if there is none.
    """

    branch: str
    verdict: _Verdict
    passed_at: int | None
    failed_at: int | None


@dataclass(frozen=True, slots=True)
class BranchEvidence:
    """What the executions of a test on one branch say about its recovery.

    `failed_at` is when the newest failure finished. `passed` has the newest verdicts that passed,
    each with the time of its newest pass: no more than are enough for a recovery.
    """

    failed_at: int
    passed: Sequence[tuple[int, _Verdict]]


def collect_evidence(seen: Iterable[tuple[str, Observation]]) -> dict[str, BranchEvidence]:
    """Sum the executions of one test up by branch; each comes with its branch."""
    return sum_verdicts(
        _times_of(branch, each)
        for branch, each in seen
        if not each.infrastructure_failure and each.conclusion is not Conclusion.SKIPPED
    )


def sum_verdicts(verdicts: Iterable[VerdictTimes]) -> dict[str, BranchEvidence]:
    """Sum the verdicts of one test up by branch; a verdict may come in several parts."""
    failed: dict[str, int] = {}
    passed: dict[str, dict[_Verdict, int]] = {}
    for branch, verdict, passed_at, failed_at in verdicts:
        if failed_at is not None:
            failed[branch] = max(failed.get(branch, _NEVER), failed_at)
        if passed_at is not None:
            newest = passed.setdefault(branch, {})
            newest[verdict] = max(newest.get(verdict, _NEVER), passed_at)
    return {
        branch: BranchEvidence(failed.get(branch, _NEVER), _newest(passed.get(branch, {})))
        for branch in failed.keys() | passed.keys()
    }


def _times_of(branch: str, seen: Observation) -> VerdictTimes:
    is_failed = seen.conclusion is Conclusion.FAILED or seen.needed_retries
    passed_at, failed_at = (None, seen.at) if is_failed else (seen.at, None)
    return VerdictTimes(branch, (*seen.job, seen.commit), passed_at, failed_at)


def _newest(passed: Mapping[_Verdict, int]) -> list[tuple[int, _Verdict]]:
    return sorted(((at, verdict) for verdict, at in passed.items()), reverse=True)[
        :RECOVERY_VERDICTS
    ]


def select_branches(
    evidence: Mapping[str, BranchEvidence], pattern: str | None
) -> Iterable[BranchEvidence]:
    """Return the evidence on the branches that a quarantine of this pattern covers."""
    if pattern is None:
        return evidence.values()
    if is_literal(pattern):
        found = evidence.get(pattern)
        return () if found is None else (found,)
    return (each for branch, each in evidence.items() if covers_branch(pattern, branch))


@dataclass(frozen=True, slots=True)
class Recovery:
    """A summary of the executions since a quarantine began, on the branches that it covers.

    `passed` has the (pipeline, job, commit) of passed verdicts. Once there are enough of them, or
    one execution failed, they no longer matter and are dropped.
    """

    has_failed: bool = False
    has_enough: bool = False
    passed: frozenset[_Verdict] = frozenset()

    @property
    def is_recovered(self) -> bool:
        return self.has_enough and not self.has_failed

    def without_executions(self) -> Recovery:
        """Return what stays known when retention has removed executions: which verdicts passed.

        A failure is judged by the executions that are left.
        """
        return Recovery(has_enough=self.has_enough, passed=self.passed)

    def merge(self, branches: Iterable[BranchEvidence], since: int) -> Recovery:
        """Return the summary with the executions that finished at `since` or later added.

        Adding one twice changes nothing.
        """
        if self.has_failed:
            return Recovery(has_failed=True)
        passed = set(self.passed)
        for branch in branches:
            if branch.failed_at >= since:
                return Recovery(has_failed=True)
            passed.update(verdict for at, verdict in branch.passed if at >= since)
        if self.has_enough or len(passed) >= RECOVERY_VERDICTS:
            return Recovery(has_enough=True)
        return Recovery(passed=frozenset(passed))
