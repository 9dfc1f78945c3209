"""Flaky verdicts that go on while retention removes their first executions count on one day."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health.history import History, build_history, merge_history
from indexing.health.lasting_verdicts import LastingVerdict, read_lasting, write_lasting
from indexing.health.merging import InexactMergeError, build_rollup, merge_rollup
from indexing.health.observations import Observation
from indexing.health.rollups import DailyRollup, Rollup
from indexing.health.window import day_number, day_of
from indexing.models.executions import Conclusion
from indexing.models.tests import TestMetadata
from indexing.timestamps import DAY_MICROSECONDS
from tests.builders import NOON

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
JOB = ("ci", "unit")
TODAY = day_of(NOON)
# Retention keeps results for longer than any commit pauses.
LONGEST_PAUSE = 48
SHORTEST_RETENTION = 72


def seen(hours: int, commit: str, conclusion: Conclusion) -> Observation:
    at = TODAY * DAY_MICROSECONDS + hours * 3_600_000_000
    return Observation(
        "ci", "unit", commit, conclusion, at, False, False, None, TestMetadata(), None
    )


@st.composite
def long_runs(draw: st.DrawFn) -> list[Observation]:
    """Return the results of a few commits that go on for days, oldest first."""
    history: list[Observation] = []
    for commit in range(draw(st.integers(1, 4))):
        hours = draw(st.integers(0, 240))
        for pause in draw(st.lists(st.integers(1, LONGEST_PAUSE), max_size=14)):
            hours += pause
            conclusion = draw(st.sampled_from([PASSED, PASSED, FAILED]))
            history.append(seen(hours, str(commit), conclusion))
    return sorted(history, key=lambda each: each.at)


class Kept:
    """A sequence as a store keeps it, while results arrive and retention removes them."""

    def __init__(self) -> None:
        self.stored: list[Observation] = []
        self.rollup: Rollup | None = None
        self.history = History()
        self.final_day = TODAY - 1

    def load(self, new: list[Observation]) -> None:
        commits = {each.commit for each in self.stored}
        self.stored += new
        try:
            self._merge(new, commits)
        except InexactMergeError:
            self.compute()

    def prune(self, before: int) -> None:
        self.final_day = max(self.final_day, day_number(before))
        self.stored = [each for each in self.stored if each.at >= before]
        self.compute()

    def compute(self) -> None:
        self.rollup, days, verdicts = build_rollup(self.stored)
        self.history = build_history(self.history, {JOB: days}, self.final_day, {JOB: verdicts})

    @property
    def counted(self) -> int:
        return sum(flaky.verdicts for flaky in self.history.flaky.get(JOB, ()))

    def _merge(self, new: list[Observation], commits: set[str]) -> None:
        if self.rollup is None:
            raise InexactMergeError
        rollup, changed, verdicts = merge_rollup(self.rollup, new, commits.__contains__)
        assert rollup is not None
        days: dict[int, DailyRollup] = {day.day: day for day in (*rollup.days, *changed)}
        first = min(day_number(each.at) for each in new)
        self.history = merge_history(
            self.history,
            {JOB: [days[day] for day in sorted(days)]},
            {JOB: first},
            self.final_day,
            {JOB: verdicts},
        )
        self.rollup = rollup


@settings(max_examples=300, deadline=None)
@given(long_runs(), st.randoms(use_true_random=False))
def test_each_flaky_commit_counts_at_most_once_and_a_recomputation_gives_the_same(
    history: list[Observation], order: random.Random
) -> None:
    results: dict[str, set[Conclusion]] = {}
    for each in history:
        results.setdefault(each.commit, set()).add(each.conclusion)
    flaky = sum(len(found) > 1 for found in results.values())
    kept = Kept()
    while history:
        count = order.randint(1, 3)
        kept.load(history[:count])
        newest, history = history[:count][-1].at, history[count:]
        if order.random() < 0.4:
            hours = order.randint(SHORTEST_RETENTION, 150)
            kept.prune(newest - hours * 3_600_000_000)
        merged = kept.history
        assert kept.counted <= flaky
        kept.compute()
        assert kept.history == merged
        assert read_lasting(write_lasting(merged.lasting)) == merged.lasting


def test_only_flaky_verdicts_of_several_days_are_kept() -> None:
    kept = Kept()
    for commit, second in (("good", PASSED), ("bad", FAILED)):
        kept.load([seen(1, commit, PASSED), seen(30, commit, second)])
    kept.load([seen(31, "brief", PASSED), seen(32, "brief", FAILED)])
    assert kept.history.lasting == {JOB: (LastingVerdict("bad", TODAY),)}
    kept.prune(TODAY * DAY_MICROSECONDS + 2 * 3_600_000_000)
    assert kept.history.lasting == {JOB: (LastingVerdict("bad", TODAY),)}
    kept.load([seen(33, "bad", PASSED)])
    assert kept.history.lasting == {JOB: (LastingVerdict("bad", TODAY, again=TODAY + 1),)}
    kept.prune((TODAY + 9) * DAY_MICROSECONDS)
    assert kept.history.lasting == {}


def test_a_text_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="99"):
        read_lasting(b"[99, []]")
