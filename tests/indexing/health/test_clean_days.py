"""A day on which everything passed is counted faster than others, and equally."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health import merging
from indexing.health.clean_days import count_clean_day
from indexing.health.merging import InexactMergeError, build_rollup, merge_rollup
from indexing.health.observations import Observation
from indexing.models.executions import Conclusion
from tests.indexing.health.judging import seen

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


def mostly_clean(days: int, commits: int, size: int) -> st.SearchStrategy[list[Observation]]:
    return st.lists(
        st.builds(
            seen,
            st.sampled_from([PASSED] * 20 + [FAILED, SKIPPED]),
            hours=st.integers(-24 * days, 0),
            commit=st.integers(0, commits).map(str),
            retried=st.sampled_from([False] * 20 + [True]),
            infrastructure=st.sampled_from([False] * 20 + [True]),
            duration=st.none() | st.sampled_from([0.1, 1e300, -1.0]),
            framework=st.none() | st.sampled_from(["pytest", "nose"]),
        ),
        min_size=1,
        max_size=size,
    )


@settings(max_examples=200, deadline=None)
@given(mostly_clean(40, 400, 60) | mostly_clean(8, 20, 40))
def test_clean_days_are_counted_like_other_days(history: list[Observation]) -> None:
    found = build_rollup(history)
    with patch.object(merging, "count_clean_day", return_value=None):
        assert build_rollup(history) == found


@settings(max_examples=100, deadline=None)
@given(mostly_clean(40, 400, 60), st.integers(0, 60))
def test_clean_days_are_merged_like_other_days(history: list[Observation], old: int) -> None:
    history.sort(key=lambda each: each.at)
    before, *_ = build_rollup(history[:old])
    new = history[old:]
    if before is None:
        return
    commits = {each.commit for each in history[:old]}
    try:
        found = merge_rollup(before, new, commits.__contains__)
    except InexactMergeError:
        return
    with patch.object(merging, "count_clean_day", return_value=None):
        assert merge_rollup(before, new, commits.__contains__) == found


@pytest.mark.parametrize(
    "other",
    [
        seen(FAILED),
        seen(SKIPPED),
        seen(retried=True),
        seen(infrastructure=True),
        seen(commit="known"),
    ],
)
def test_a_day_with_anything_else_is_not_clean(other: Observation) -> None:
    assert count_clean_day(0, [seen(commit="new")], {"known"}) is not None
    assert count_clean_day(0, [seen(commit="new"), other], {"known"}) is None
