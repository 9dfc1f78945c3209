"""The history of a test against judging all results until the end of each day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.health.history import (
    KEPT_DAYS,
    Change,
    History,
    build_history,
    merge_history,
    read_history,
    write_history,
)
from indexing.health.merging import InexactMergeError, build_rollup
from indexing.health.observations import Observation
from indexing.health.rollups import DailyRollup
from indexing.health.window import NEVER, day_number, day_of
from indexing.models.executions import Conclusion
from indexing.models.tests import TestMetadata
from indexing.timestamps import to_microseconds
from tests.builders import NOON, after
from tests.indexing.health.judging import judge

JOB = ("ci", "unit")
OTHER = ("ci", "other")
TODAY = day_of(NOON)


@st.composite
def observations(draw: st.DrawFn) -> list[Observation]:
    found = draw(
        st.lists(
            st.tuples(
                st.integers(-45 * 24, 0),
                st.integers(0, 20),
                st.sampled_from([*Conclusion, Conclusion.PASSED, Conclusion.FAILED]),
                st.booleans(),
            ),
            min_size=1,
            max_size=30,
        )
    )
    return [
        Observation(
            pipeline_name="ci",
            job_name="unit",
            commit=str(commit),
            conclusion=conclusion,
            at=to_microseconds(after(hours=hours)),
            needed_retries=retried and conclusion is Conclusion.PASSED,
            infrastructure_failure=False,
            pull=None,
            metadata=TestMetadata(),
        )
        for hours, commit, conclusion, retried in found
    ]


def health_on(history: History, day: int) -> str | None:
    return next((each.health for each in reversed(history.test) if each.day <= day), None)


def build(*jobs: tuple[tuple[str, str], list[DailyRollup]]) -> History:
    return build_history(History(), dict(jobs), NEVER)


def row(day: int, health: str, *, evidence: int = 1) -> DailyRollup:
    at = (TODAY + day) * 86_400_000_000
    return DailyRollup(TODAY + day, passed=1, passed_evidence=evidence, last_at=at, health=health)


@given(observations())
def test_the_health_of_a_day_is_that_of_all_results_until_its_end(seen: list[Observation]) -> None:
    _, days, _ = build_rollup(seen)
    history = build((JOB, list(days)))
    assert history.sequences == {JOB: history.test}
    assert read_history(write_history(history)) == history
    ran = {day_number(each.at) for each in seen}
    for day in range(min(ran) - 1, TODAY + 2):
        until = [each for each in seen if day_number(each.at) <= day]
        expected = judge(until, flaky_detection=True).health.health_status.value
        assert health_on(history, day) == (expected if until else None)
    for change in history.test:
        assert change.at == max(each.at for each in seen if day_number(each.at) == change.day)


def test_a_test_is_as_its_worst_live_sequence() -> None:
    history = build(
        (JOB, [row(day, "healthy") for day in range(-20, 1)]),
        (OTHER, [row(-18, "broken"), row(-17, "flaky"), row(-12, "flaky", evidence=0)]),
    )
    assert [(change.day - TODAY, change.health) for change in history.test] == [
        (-20, "healthy"),
        (-18, "broken"),
        (-17, "flaky"),
        # Nine days after the newest result, whatever was skipped since.
        (-8, "healthy"),
    ]


def test_days_that_are_final_stay_and_so_does_the_health_beside_them() -> None:
    before = build((JOB, [row(-40, "broken"), row(-39, "healthy"), row(-20, "flaky")]))
    # After retention, all that is left looks healthy.
    left = {JOB: [row(-39, "healthy"), row(-20, "healthy"), row(-10, "healthy"), row(0, "healthy")]}
    history = build_history(before, left, TODAY - 40)
    assert [(c.day - TODAY, c.health) for c in history.sequences[JOB]] == [
        (-40, "broken"),
        (-39, "healthy"),
        (-20, "flaky"),
        (-10, "healthy"),
    ]
    assert build_history(history, left, TODAY - 40) == history


def test_a_merge_that_needs_days_which_are_not_given_is_refused() -> None:
    days = {JOB: [row(-25, "healthy"), row(0, "healthy")]}
    assert merge_history(History(), days, {JOB: TODAY - 21}, NEVER).test
    with pytest.raises(InexactMergeError):
        merge_history(History(), days, {JOB: TODAY - 22}, NEVER)


def test_old_changes_go_but_the_last_one_before_them() -> None:
    rows = [row(-900, "healthy"), row(-850, "broken"), row(-700, "healthy"), row(0, "broken")]
    history = build((JOB, rows))
    assert [change.day - TODAY for change in history.test] == [-850, -700, 0]
    assert KEPT_DAYS == 800
    newest = history.test[-1]
    assert newest == Change(TODAY, TODAY * 86_400_000_000, "broken")
