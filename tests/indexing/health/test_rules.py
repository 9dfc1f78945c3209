"""Each health rule at its thresholds, and invariants for any history of a test."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health import thresholds
from indexing.health.observations import Judgement, Observation
from indexing.health.recovery import Recovery, collect_evidence
from indexing.health.rules import is_infrastructure_failure
from indexing.health.sequences import KEPT_VERDICTS
from indexing.models.executions import Conclusion, PullRequest
from indexing.models.tests import HealthStatus, TestHealth, TestMetadata
from indexing.timestamps import DAY_MICROSECONDS, to_microseconds
from tests.builders import NOON, PULL, after
from tests.indexing.health.judging import judge

CONCLUSIONS = {"P": Conclusion.PASSED, "F": Conclusion.FAILED, "S": Conclusion.SKIPPED}
UNIT = ("ci", "unit")
SMOKE = ("ci", "smoke")


def seen(
    letter: str,
    at: datetime = NOON,
    *,
    commit: str = "c0",
    job: tuple[str, str] = UNIT,
    retried: bool = False,
    infrastructure: bool = False,
    pull: PullRequest | None = None,
    metadata: TestMetadata | None = None,
) -> Observation:
    return Observation(
        pipeline_name=job[0],
        job_name=job[1],
        commit=commit,
        conclusion=CONCLUSIONS[letter],
        at=to_microseconds(at),
        needed_retries=retried,
        infrastructure_failure=infrastructure,
        pull=pull,
        metadata=metadata or TestMetadata(),
    )


def counts_of(judged: Judgement) -> dict[tuple[str, str], int]:
    return {job: metrics.executions_count for job, metrics in judged.rows.items()}


def history(letters: str, *, job: tuple[str, str] = UNIT, days_ago: float = 0) -> list[Observation]:
    """Six commits a day, the newest one so many days ago; `X` is a commit that flaked."""
    return [
        seen(
            each,
            after(days=-days_ago, hours=4 * (index - len(letters) + 1)),
            commit=f"c{index}",
            job=job,
        )
        for index, letter in enumerate(letters)
        for each in ("PF" if letter == "X" else letter)
    ]


def status(observations: list[Observation], *, flaky_detection: bool = True) -> HealthStatus:
    return judge(observations, flaky_detection=flaky_detection).health.health_status


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("P", "healthy"),
        ("F", "broken"),
        ("FF", "broken"),
        ("PF", "healthy"),
        ("PFF", "healthy"),
        ("PFFF", "broken"),
        ("FFFP", "healthy"),
        ("FXF", "flaky"),
        ("FFX", "flaky"),
        ("XFFF", "broken"),
        # The newest failed, and so did 8 of the newest 10.
        ("PFFFFFFPFF", "broken"),
        ("PFFFFFPPFF", "flaky"),
        ("FPFFFPFFPFF", "flaky"),
        ("PPFFFFFFPFF", "broken"),
        ("FFFFFFFFPP", "healthy"),
        ("XFFFFFFPFF", "broken"),
        ("XFFFFFFXFF", "broken"),
        ("XXFFFFFXFF", "flaky"),
        # Two changes from pass to fail within 20 commits; changes from fail to pass do not count.
        ("PFPFP", "flaky"),
        ("FPFP", "healthy"),
        ("PF" + "P" * 17 + "F", "flaky"),
        ("PF" + "P" * 18 + "F", "healthy"),
        ("PPPXP", "flaky"),
    ],
)
def test_a_sequence_is_judged_by_its_newest_commits(letters: str, expected: str) -> None:
    assert status(history(letters)) == expected


def test_all_verdicts_that_a_rule_looks_at_are_kept() -> None:
    looked_at = [
        value for name, value in vars(thresholds).items() if name.endswith(("_SPAN", "_STREAK"))
    ]
    assert max(looked_at) <= KEPT_VERDICTS


def test_what_would_be_flaky_is_healthy_with_detection_off() -> None:
    assert status(history("PXP"), flaky_detection=False) is HealthStatus.HEALTHY
    assert status(history("PFPFP"), flaky_detection=False) is HealthStatus.HEALTHY
    assert status(history("XFFF"), flaky_detection=False) is HealthStatus.BROKEN


def test_a_pass_that_needed_retries_is_a_flaky_verdict() -> None:
    judged = judge([seen("P", retried=True)], flaky_detection=True).health
    assert judged.health_status is HealthStatus.FLAKY
    assert (judged.success_ratio, judged.flakiness_ratio) == (1.0, 1.0)


def test_jobs_that_always_disagree_do_not_make_a_test_flaky() -> None:
    steady = [*history("P" * 9), *history("F" * 9, job=SMOKE)]
    assert status(steady) is HealthStatus.BROKEN
    assert judge(steady, flaky_detection=True).health.flakiness_ratio == 0


def test_a_sequence_is_live_for_exactly_eight_days() -> None:
    failing = history("FFF", job=SMOKE, days_ago=8)
    assert status([*failing, seen("P")]) is HealthStatus.BROKEN
    newest = seen("P", after(microseconds=1))
    assert status([*failing, newest]) is HealthStatus.HEALTHY


def test_a_test_that_is_only_skipped_lately_is_unknown() -> None:
    assert status([seen("F", after(days=-9)), seen("S")]) is HealthStatus.UNKNOWN
    assert status([seen("S")]) is HealthStatus.UNKNOWN


def test_a_job_that_runs_an_unchanged_commit_has_not_fallen_silent() -> None:
    nightly = [seen("F", after(days=-9)), seen("F", after(days=-1)), seen("S", NOON, commit="c1")]
    assert status(nightly) is HealthStatus.BROKEN
    assert status([nightly[0], nightly[2]]) is HealthStatus.UNKNOWN


def test_a_job_that_runs_an_older_commit_again_has_not_fallen_silent() -> None:
    older, newer = seen("F", after(days=-20)), seen("F", after(days=-19), commit="c1")
    elsewhere = seen("P", job=SMOKE)
    assert status([older, newer, elsewhere]) is HealthStatus.HEALTHY
    again = seen("F", after(days=-1))
    assert status([older, newer, again, elsewhere]) is HealthStatus.BROKEN


def test_the_window_holds_exactly_thirty_whole_days() -> None:
    midnight = after(hours=-12)
    old = seen("F", midnight - timedelta(days=29), commit="c1")
    last_of_the_day = seen("P", midnight + timedelta(days=1, microseconds=-1))
    judged = judge([old, last_of_the_day], flaky_detection=True)
    assert judged.health.failure_ratio == 0.5
    assert counts_of(judged) == {UNIT: 2}
    older = seen("F", midnight - timedelta(days=29, microseconds=1), commit="c1")
    judged = judge([older, seen("P", midnight)], flaky_detection=True)
    assert judged.health.failure_ratio == 0
    assert counts_of(judged) == {UNIT: 1}
    # It ends with the newest execution in any job.
    earlier = seen("P", midnight - timedelta(days=5), job=SMOKE)
    oldest = seen("F", midnight - timedelta(days=29, microseconds=1), commit="c1", job=SMOKE)
    judged = judge([oldest, earlier, seen("P", midnight)], flaky_detection=True)
    assert judged.health.failure_ratio == 0
    assert counts_of(judged) == {UNIT: 1, SMOKE: 1}


def test_the_window_of_the_year_1_is_no_error() -> None:
    beginning = datetime(1, 1, 1, tzinfo=UTC)
    judged = judge([seen("F", beginning)], flaky_detection=True)
    assert counts_of(judged) == {UNIT: 1}


def test_skips_are_counted_and_end_the_window_but_are_no_evidence() -> None:
    judged = judge(
        [seen("P"), seen("S", after(days=31)), seen("P", after(days=2), job=SMOKE)],
        flaky_detection=True,
    )
    assert counts_of(judged) == {UNIT: 1, SMOKE: 1}
    assert judged.health.last_conclusion == "skipped"
    assert judged.health.success_ratio == 1.0


def test_an_infrastructure_failure_is_no_evidence_but_happened() -> None:
    judged = judge(
        [seen("P"), seen("F", after(days=1), commit="c1", infrastructure=True)],
        flaky_detection=True,
    )
    assert judged.health == TestHealth(
        health_status=HealthStatus.HEALTHY,
        last_conclusion="failed",
        success_ratio=1.0,
        first_failure_at=after(days=1),
        first_failure_commit="c1",
        last_failure_at=after(days=1),
        last_success_at=NOON,
    )
    assert counts_of(judged) == {UNIT: 2}


def test_first_and_last_outlive_the_executions_behind_them() -> None:
    before = judge(
        [seen("F", after(days=-99), commit="old", pull=PULL), seen("P", after(days=-98))],
        flaky_detection=True,
    ).health
    judged = judge([seen("F", commit="new")], flaky_detection=True, before=before).health
    assert (judged.first_failure_at, judged.first_failure_commit) == (after(days=-99), "old")
    assert judged.first_failure_pull == PULL
    assert (judged.last_failure_at, judged.last_success_at) == (NOON, after(days=-98))
    assert judged.failure_ratio == 1.0

    emptied = judge([], flaky_detection=True, before=judged).health
    assert emptied == replace(
        judged, health_status=HealthStatus.UNKNOWN, last_conclusion="unknown", failure_ratio=0.0
    )


def test_an_earlier_failure_that_arrives_late_takes_the_place_of_the_first() -> None:
    before = judge([seen("F", pull=PULL)], flaky_detection=True).health
    judged = judge(
        [seen("F", after(days=-1), commit="c9")], flaky_detection=True, before=before
    ).health
    assert (judged.first_failure_at, judged.first_failure_commit) == (after(days=-1), "c9")
    assert judged.first_failure_pull is None


def test_each_field_of_the_metadata_is_that_of_the_newest_execution_to_state_it() -> None:
    judged = judge(
        [
            seen("P", after(days=-1), metadata=TestMetadata("pytest", "8", "python", "a.py", "f")),
            seen("S", metadata=TestMetadata(framework_version="9", filepath="b.py")),
        ],
        flaky_detection=True,
    )
    assert judged.metadata == TestMetadata("pytest", "9", "python", "b.py", "f")


@pytest.mark.parametrize(
    ("passed", "failed", "expected"),
    [(4, 16, False), (3, 17, True), (0, 19, False), (0, 20, True), (200, 800, False)],
)
def test_a_run_failed_as_a_whole_when_over_four_fifths_of_enough_tests_did(
    passed: int, failed: int, expected: bool
) -> None:
    assert is_infrastructure_failure(passed, failed) is expected


def is_recovered(observations: list[Observation]) -> bool:
    evidence = collect_evidence(("main", each) for each in observations)
    return Recovery().merge(evidence.values(), 0).is_recovered


def test_a_test_is_recovered_after_ten_verdicts_that_all_passed() -> None:
    assert is_recovered(history("P" * 10))
    assert is_recovered([*history("P" * 5), *history("SP" * 5, job=SMOKE)])
    assert not is_recovered(history("P" * 9))
    assert not is_recovered(history("P" * 10 + "F" + "P" * 10))
    assert not is_recovered(history("P" * 10 + "X"))
    assert not is_recovered([*history("P" * 9), *history("P" * 9)])
    assert is_recovered([*history("P" * 10), seen("F", commit="c99", infrastructure=True)])


texts = st.sampled_from(["a", "b"])
observations = st.lists(
    st.builds(
        seen,
        st.sampled_from("PFS"),
        st.integers(0, 45).map(lambda days: after(days=days)),
        commit=st.sampled_from(["c1", "c2", "c3", "c4"]),
        job=st.sampled_from([UNIT, SMOKE, ("nightly", "unit")]),
        retried=st.booleans(),
        infrastructure=st.booleans(),
        pull=st.sampled_from([None, PULL, replace(PULL, number=18)]),
        metadata=st.builds(TestMetadata, st.none() | texts, st.none() | texts),
    ),
    max_size=30,
)


@settings(max_examples=150)
@given(st.data())
def test_the_order_of_the_executions_does_not_matter(data: st.DataObject) -> None:
    found = data.draw(observations)
    shuffled = data.draw(st.permutations(found))
    assert judge(shuffled, flaky_detection=True) == judge(found, flaky_detection=True)
    assert is_recovered(shuffled) == is_recovered(found)


@settings(max_examples=150)
@given(observations, st.booleans())
def test_what_is_derived_holds_together(found: list[Observation], detection: bool) -> None:
    judged = judge(found, flaky_detection=detection)
    health = judged.health
    assert health.success_ratio + health.failure_ratio in (0, pytest.approx(1))
    assert 0 <= health.flakiness_ratio <= 1
    assert detection or health.health_status is not HealthStatus.FLAKY
    assert sum(counts_of(judged).values()) <= len(found)
    again = judge(found, flaky_detection=detection, before=health)
    assert again == judged


@settings(max_examples=100)
@given(observations, st.integers(1, 400))
def test_time_alone_changes_nothing(found: list[Observation], days: int) -> None:
    def verdict(judged: Judgement) -> tuple[object, ...]:
        health = judged.health
        return (health.health_status, health.failure_ratio, counts_of(judged))

    later = [o._replace(at=o.at + days * DAY_MICROSECONDS) for o in found]
    assert verdict(judge(later, flaky_detection=True)) == verdict(
        judge(found, flaky_detection=True)
    )
