"""A test whose only execution passed is derived faster than others, and equally."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.health.first_passes import FirstPass, derive_first_pass
from indexing.health.history import History, merge_history
from indexing.health.merging import build_rollup
from indexing.health.observations import Observation
from indexing.health.rules import judge_rollups
from indexing.health.window import day_number
from indexing.models.executions import Conclusion
from tests.indexing.health.judging import seen

FINAL_DAY = -(2**40)
DURATIONS = st.none() | st.floats() | st.floats(0, 100, allow_nan=False)


@given(
    st.builds(
        seen,
        hours=st.integers(-600_000, 0) | st.floats(-100, 100),
        commit=st.text(),
        duration=DURATIONS,
        framework=st.none() | st.text(),
    ),
    st.booleans(),
)
def test_it_is_what_all_executions_of_a_test_give(only: Observation, flaky_detection: bool) -> None:
    merged = build_rollup([only])
    assert merged.rollup is not None
    job = (only.pipeline_name, only.job_name)
    history = merge_history(
        History(), {job: merged.days}, {job: day_number(only.at)}, FINAL_DAY, {}
    )
    judgement = judge_rollups({job: merged.rollup}, [only], flaky_detection=flaky_detection)
    found = derive_first_pass(only, flaky_detection=flaky_detection)
    assert found is not None
    assert found.merged.rollup == merged.rollup
    assert list(found.merged.days) == list(merged.days)
    assert found.merged.verdicts == merged.verdicts
    assert found == FirstPass(found.merged, history, judgement)


@pytest.mark.parametrize(
    "only",
    [
        seen(Conclusion.FAILED),
        seen(Conclusion.SKIPPED),
        seen(retried=True),
        seen(infrastructure=True),
    ],
)
def test_no_other_execution_is_a_first_pass(only: Observation) -> None:
    assert derive_first_pass(only, flaky_detection=True) is None
