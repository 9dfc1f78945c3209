"""Recovery by the executions on the branches of a quarantine, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from indexing.health.observations import Observation
from indexing.health.recovery import (
    Recovery,
    VerdictTimes,
    collect_evidence,
    select_branches,
    sum_verdicts,
)
from indexing.health.thresholds import RECOVERY_VERDICTS
from indexing.models.executions import Conclusion
from indexing.models.quarantines import covers_branch
from indexing.models.tests import TestMetadata
from tests.growth import assert_linear

Seen = tuple[str, Observation]

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
_METADATA = TestMetadata()


def seen(
    at: int,
    conclusion: Conclusion = PASSED,
    commit: int = 0,
    branch: str = "main",
    *,
    retried: bool = False,
    infrastructure: bool = False,
) -> Seen:
    observation = Observation(
        "ci", "unit", f"c{commit}", conclusion, at, retried, infrastructure, None, _METADATA
    )
    return branch, observation


def judge_one_by_one(found: list[Seen], pattern: str | None, since: int) -> tuple[bool, bool]:
    """Whether the test failed under that quarantine, and whether it has recovered."""
    counted = [
        each
        for branch, each in found
        if covers_branch(pattern, branch)
        and each.at >= since
        and not each.infrastructure_failure
        and each.conclusion is not SKIPPED
    ]
    failed = any(each.conclusion is FAILED or each.needed_retries for each in counted)
    commits = {each.commit for each in counted}
    return failed, not failed and len(commits) >= RECOVERY_VERDICTS


executions = st.lists(
    st.builds(
        seen,
        st.integers(0, 9),
        # Failures are rare, so that most histories end in a recovery.
        st.sampled_from([PASSED] * 40 + [SKIPPED, FAILED]),
        st.integers(0, 14),
        st.sampled_from(["main", "next", "release/1"]),
        retried=st.sampled_from([False] * 40 + [True]),
        infrastructure=st.sampled_from([False] * 9 + [True]),
    ),
    max_size=60,
)
patterns = st.sampled_from([None, "*", "main", "release/*", "n*", "nothing"])


@given(executions, executions, patterns, st.integers(0, 9))
def test_it_is_that_of_each_execution_on_a_covered_branch(
    stored: list[Seen], new: list[Seen], pattern: str | None, since: int
) -> None:
    recovery = Recovery()
    for found in (stored, new, new):
        recovery = recovery.merge(select_branches(collect_evidence(found), pattern), since)
    expected = judge_one_by_one(stored + new, pattern, since)
    assert (recovery.has_failed, recovery.is_recovered) == expected


def test_what_finishes_as_the_quarantine_begins_counts() -> None:
    passed = [seen(5, commit=number) for number in range(RECOVERY_VERDICTS)]
    evidence = collect_evidence(passed).values()
    assert Recovery().merge(evidence, 5).is_recovered
    assert not Recovery().merge(evidence, 6).is_recovered
    evidence = collect_evidence([seen(5, FAILED)]).values()
    assert Recovery().merge(evidence, 5).has_failed
    assert not Recovery().merge(evidence, 6).has_failed


@given(executions, patterns, st.integers(0, 9))
def test_it_is_the_same_by_the_times_of_verdicts(
    found: list[Seen], pattern: str | None, since: int
) -> None:
    times: dict[tuple[str, str], dict[bool, int]] = {}
    for branch, each in found:
        if not each.infrastructure_failure and each.conclusion is not SKIPPED:
            of_verdict = times.setdefault((branch, each.commit), {})
            is_failure = each.conclusion is FAILED or each.needed_retries
            of_verdict[is_failure] = max(of_verdict.get(is_failure, 0), each.at)
    evidence = sum_verdicts(
        VerdictTimes(branch, ("ci", "unit", commit), newest.get(False), newest.get(True))
        for (branch, commit), newest in times.items()
    )
    expected = Recovery().merge(select_branches(collect_evidence(found), pattern), since)
    assert Recovery().merge(select_branches(evidence, pattern), since) == expected


def test_executions_are_not_counted_again_for_each_quarantine() -> None:
    def prepare(size: int) -> Callable[[], object]:
        found = [seen(number, commit=number) for number in range(size)]
        quarantines = ["main", *(f"branch-{number}-*" for number in range(size))]

        def judge() -> list[Recovery]:
            evidence = collect_evidence(found)
            return [Recovery().merge(select_branches(evidence, each), 0) for each in quarantines]

        return judge

    assert_linear(prepare, 100)
