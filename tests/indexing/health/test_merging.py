"""Merging new executions into a roll-up gives what computing it from all of them gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health.merging import InexactMergeError, build_rollup, merge_rollup
from indexing.health.observations import Observation
from indexing.health.rollup_text import read_rollup, write_rollup
from indexing.health.rollups import DailyRollup, Rollup
from indexing.models.executions import Conclusion
from indexing.timestamps import to_microseconds
from tests.builders import NOON
from tests.indexing.health.judging import FAILED, PASSED, SKIPPED, seen


def histories(commits: int, hours: int, size: int) -> st.SearchStrategy[list[Observation]]:
    return st.lists(
        st.builds(
            seen,
            st.sampled_from([PASSED, PASSED, FAILED, SKIPPED]),
            hours=st.integers(-hours, 0),
            commit=st.integers(0, commits).map(str),
            retried=st.sampled_from([False, False, False, True]),
            infrastructure=st.sampled_from([False, False, False, True]),
            duration=st.none() | st.sampled_from([0.1, 0.2, 0.3, 1e-7, 1e300, float("nan"), -1.0]),
            framework=st.none() | st.sampled_from(["pytest", "nose"]),
        ),
        min_size=1,
        max_size=size,
    )


# From many executions a day of few commits, to few of many commits.
HISTORIES = st.one_of(
    histories(5, 60, 40), histories(60, 48, 120), histories(30, 24 * 45, 60), histories(200, 5, 99)
)


class Kept:
    """A roll-up as a store keeps it: merged where that is exact, and computed where it is not."""

    def __init__(self) -> None:
        self.stored: list[Observation] = []
        self.rollup: Rollup | None = None
        self.days: dict[int, DailyRollup] = {}
        self.merged = 0

    def load(self, new: Sequence[Observation]) -> None:
        commits = {each.commit for each in self.stored}
        self.stored += new
        if self.rollup is not None:
            try:
                self.rollup, changed, _ = merge_rollup(self.rollup, new, commits.__contains__)
            except InexactMergeError:
                pass
            else:
                self.merged += 1
                self.days |= {day.day: day for day in changed}
                return
        self.rollup, every, _ = build_rollup(self.stored)
        self.days = {day.day: day for day in every}


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.randoms(use_true_random=False), st.booleans())
def test_any_order_and_split_give_the_same_roll_up(
    history: list[Observation], order: random.Random, by_time: bool
) -> None:
    expected, days, _ = build_rollup(history)
    if by_time:
        history = sorted(history, key=lambda each: each.at)
    else:
        order.shuffle(history)
    kept = Kept()
    while history:
        count = order.randint(1, 8)
        kept.load(history[:count])
        history = history[count:]
        if kept.rollup is not None:
            assert read_rollup(write_rollup(kept.rollup)) == kept.rollup
    assert write_rollup(kept.rollup) == write_rollup(expected)
    assert [kept.days[day] for day in sorted(kept.days)] == list(days)


def test_a_merge_returns_only_the_flaky_verdicts_of_its_commits() -> None:
    """Their number must not grow with the verdicts that the roll-up keeps."""
    rollup = build_rollup(
        seen(conclusion, hours=hours, commit=f"c{hours}")
        for hours in range(-20, 0)
        for conclusion in (PASSED, FAILED)
    ).rollup
    assert rollup is not None
    new = [seen(FAILED, commit="c-1"), seen(commit="passed"), seen(SKIPPED, commit="skipped")]
    merged = merge_rollup(rollup, new, lambda _: False)
    assert merged.verdicts.keys() == {"c-1"}


def check(kept: Kept) -> None:
    expected, days, _ = build_rollup(kept.stored)
    assert kept.rollup == expected
    assert [kept.days[day] for day in sorted(kept.days)] == list(days)


@pytest.mark.parametrize("letters", ["P" * 25, "PF" * 13, "PXXF" * 7, "X" * 24, "P" * 19, "X" * 3])
@pytest.mark.parametrize("again", [PASSED, FAILED])
@pytest.mark.parametrize("minutes_apart", [1, 24 * 60])
@pytest.mark.parametrize("hours", [0, -6, -11.9, 1])
def test_a_rerun_of_any_commit_gives_the_same_roll_up(
    letters: str, again: Conclusion, minutes_apart: int, hours: float
) -> None:
    """`X` is a commit that flaked; the newest commit ran at noon."""
    history = [
        seen(
            FAILED if letter == "F" else PASSED,
            hours=(index + 1 - len(letters)) * minutes_apart / 60,
            commit=str(index),
            retried=letter == "X",
        )
        for index, letter in enumerate(letters)
    ]
    for index in range(len(letters)):
        kept = Kept()
        for each in history:
            kept.load([each])
        kept.load([seen(again, hours=hours, commit=str(index))])
        check(kept)
        kept.load([seen(PASSED, hours=2, commit="next")])
        check(kept)


def test_new_commits_are_merged_however_many_there_were() -> None:
    kept = Kept()
    for number in range(100):
        kept.load([seen(hours=number, commit=f"{number:03}")])
    assert kept.merged == 99
    check(kept)
    assert kept.rollup is not None
    # The size does not grow with the history.
    size = len(write_rollup(kept.rollup))
    for number in range(100, 200):
        kept.load([seen(hours=99 + number / 1000, commit=f"{number:03}")])
    assert kept.merged == 199
    assert len(write_rollup(kept.rollup)) < 1.2 * size


def test_a_verdict_that_began_before_the_window_counts_by_what_is_inside_it() -> None:
    kept = Kept()
    for day in range(40):
        kept.load([seen(FAILED if day == 0 else PASSED, hours=24 * day, commit="same")])
        check(kept)
    assert kept.rollup is not None
    sequence = kept.rollup.sequence_since(kept.rollup.days[0].day)
    assert sequence is not None
    assert [(v.outcome.value, v.stood_alone) for v in sequence.newest] == [("passed", False)]
    assert sum(day.verdicts for day in sequence.days) == 1


def test_results_of_a_day_before_the_newest_one_are_not_merged() -> None:
    rollup, *_ = build_rollup([seen(hours=24)])
    assert rollup is not None
    with pytest.raises(InexactMergeError):
        merge_rollup(rollup, [seen(commit="late")], lambda _: False)
    assert merge_rollup(rollup, [seen(hours=24.5, commit="in time")], lambda _: False)


def test_the_health_at_the_end_of_each_day_is_kept() -> None:
    letters = "PPPFFFPPP"
    history = [
        seen(FAILED if letter == "F" else PASSED, hours=24 * day, commit=str(day))
        for day, letter in enumerate(letters)
    ]
    _, days, _ = build_rollup(history)
    assert [day.health for day in days] == ["healthy"] * 5 + ["broken"] + ["healthy"] * 3
    # Each day's health stays as it was at its end.
    kept = Kept()
    for each in history:
        kept.load([each])
    assert [kept.days[day.day].health for day in days] == [day.health for day in days]
    assert [day.last_at for day in days] == [each.at for each in history]


def test_durations_are_counted_exactly_and_within_bounds() -> None:
    odd = [0.1, 0.2, 0.3, None, float("nan"), float("inf"), -1.0, 1e300]
    history = [seen(commit=str(n), duration=each) for n, each in enumerate(odd)]
    _, (day,), _ = build_rollup(history)
    assert (day.durations, day.total_duration, day.longest_duration) == (3, 600_000, 300_000)
    assert build_rollup(reversed(history)).days == [day]
    assert day.passed == len(odd)


def test_days_are_those_of_utc() -> None:
    midnight = NOON - timedelta(hours=12)
    rollup, days, _ = build_rollup([seen(hours=-12.001), seen(hours=-12, commit="d")])
    assert rollup is not None
    assert [day.passed for day in days] == [1, 1]
    assert days[1].last_at == to_microseconds(midnight)
