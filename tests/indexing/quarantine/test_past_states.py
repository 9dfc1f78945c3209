"""The states of a test at earlier moments are those by the executions until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health.observations import Judgement, Observation
from indexing.health.rollups import Job, Rollup
from indexing.health.rules import build_rollups, judge_rollups
from indexing.models.executions import Conclusion
from indexing.models.tests import TestMetadata
from indexing.quarantine.decision import JudgedState
from indexing.quarantine.past_states import PastStates
from indexing.timestamps import to_microseconds
from tests.builders import after

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
HOURS = 24 * 45
JOBS = frozenset({("ci", "unit"), ("ci", "slow")})


def seen(
    conclusion: Conclusion,
    hours: int,
    commit: str = "c",
    job: str = "unit",
    *,
    retried: bool = False,
    infrastructure: bool = False,
) -> Observation:
    return Observation(
        pipeline_name="ci",
        job_name=job,
        commit=commit,
        conclusion=conclusion,
        at=moment(hours),
        needed_retries=retried,
        infrastructure_failure=infrastructure,
        pull=None,
        metadata=TestMetadata(),
    )


def moment(hours: int) -> int:
    return to_microseconds(after(hours=hours))


def state_by(observations: Sequence[Observation], flaky_detection: bool) -> JudgedState:
    rollups = build_rollups(observations)
    judgement = judge_rollups(rollups, (), flaky_detection=flaky_detection)
    return JudgedState.of(judgement, rollups.values())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.builds(
            seen,
            st.sampled_from([PASSED, FAILED, FAILED, SKIPPED]),
            st.integers(0, HOURS),
            st.integers(0, 40).map(str),
            st.sampled_from(["unit", "slow", "not judged"]),
            retried=st.sampled_from([False, False, True]),
            infrastructure=st.sampled_from([False, False, True]),
        ),
        max_size=80,
    ),
    st.lists(st.integers(-1, HOURS + 1), min_size=1, max_size=12),
    st.booleans(),
)
def test_each_state_is_that_of_the_executions_until_then(
    observations: list[Observation], hours: list[int], flaky_detection: bool
) -> None:
    judge = partial(judge_rollups, flaky_detection=flaky_detection)
    past = PastStates(observations, JOBS, judge)
    for at in (*sorted(hours), *hours):
        until = [each for each in observations if each.at <= moment(at) and each.job in JOBS]
        assert past.until(moment(at)) == state_by(until, flaky_detection)


def test_a_day_without_an_execution_is_not_judged_again() -> None:
    judged: list[int] = []

    def judge(rollups: Mapping[Job, Rollup], fresh: Sequence[Observation]) -> Judgement:
        judged.append(len(rollups))
        return judge_rollups(rollups, fresh, flaky_detection=True)

    past = PastStates([seen(FAILED, 0, "a"), seen(FAILED, 24 * 300, "b")], JOBS, judge)
    states = [past.until(moment(24 * day)) for day in range(365)]
    assert len(set(map(id, states))) == 2
    # Before there was any execution, and after each of both.
    assert judged == [0, 1, 1]
