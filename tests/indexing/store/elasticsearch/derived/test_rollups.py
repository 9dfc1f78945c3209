"""Roll-ups of tests in Elasticsearch: markers may come twice, late, and in any order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.health.merging import InexactMergeError
from indexing.health.rules import judge_rollups
from indexing.health.window import NEVER, day_of
from indexing.models.executions import Conclusion, Execution, Run
from indexing.store.elasticsearch.derived.marked_executions import (
    MarkedExecution,
    mark_execution,
    read_executions,
    write_executions,
)
from indexing.store.elasticsearch.derived.observations import OnBranch
from indexing.store.elasticsearch.derived.rollups import (
    RollupsOfTest,
    build_test,
    find_first_pass,
    find_unknown,
    merge_test,
)
from indexing.store.elasticsearch.tests import JobRollup
from tests.builders import NOON, PULL, after, make_executions, make_run

TEST = "test"
FAILED_RUNS = frozenset({"run-3"})


@dataclass(frozen=True)
class Result:
    """One execution; `number` tells equal ones apart."""

    number: int
    hours: int
    commit: str
    conclusion: Conclusion
    job: str
    branch: str

    def arrive(self, *, is_new: bool = True) -> MarkedExecution:
        run, execution = self._made()
        return mark_execution(run, f"run-{self.number % 9}", execution, is_new=is_new)

    def seen(self) -> OnBranch:
        execution = self.arrive()
        return OnBranch(execution.id, TEST, self.branch, execution.observe(FAILED_RUNS))

    def _made(self) -> tuple[Run, Execution]:
        pull = PULL if self.number % 2 else None
        run = make_run(
            str(self.number), job=self.job, branch=self.branch, commit=self.commit, pull=pull
        )
        (execution,) = make_executions(
            run, [("t", self.conclusion)], after(hours=self.hours), duration=self.number / 7
        )
        return run, execution


def results(commits: int, hours: int) -> st.SearchStrategy[Result]:
    return st.builds(
        Result,
        st.integers(0, 10_000),
        st.integers(-hours, 0),
        st.integers(0, commits).map(str),
        st.sampled_from([Conclusion.PASSED, Conclusion.PASSED, *Conclusion]),
        st.sampled_from(["unit", "unit", "slow"]),
        st.sampled_from(["main", "main", "main", "next"]),
    )


HISTORIES = st.one_of(
    st.lists(results(5, 60), max_size=40, unique_by=lambda each: each.number),
    st.lists(results(90, 30), min_size=20, max_size=70, unique_by=lambda each: each.number),
    st.lists(results(20, 45 * 24), max_size=30, unique_by=lambda each: each.number),
)


class Document:
    """The document of a test, and all that is stored of its executions."""

    def __init__(self) -> None:
        self.stored: dict[str, OnBranch] = {}
        self.rollups: Sequence[JobRollup] | None = None
        self.merges = 0

    def load(self, executions: Sequence[MarkedExecution]) -> RollupsOfTest:
        """Handle the markers with these executions, which are stored already."""
        rollups = self._merge(executions)
        if rollups is None:
            rollups = self.build()
        else:
            self.merges += 1
        self.rollups = rollups.stored_as()
        return rollups

    def build(self) -> RollupsOfTest:
        return build_test(each for each in self.stored.values() if each.branch == "main")

    def _merge(self, executions: Sequence[MarkedExecution]) -> RollupsOfTest | None:
        if self.rollups is None:
            return None
        unknown = find_unknown(TEST, self.rollups, executions, "main")
        counts = Counter(
            (TEST, o.pipeline_name, o.job_name, o.commit)
            for each in self.stored.values()
            if each.branch == "main"
            for o in (each.observation,)
        )
        earlier = {place for place, new in unknown.items() if counts[place] > new}
        try:
            return merge_test(TEST, self.rollups, executions, "main", FAILED_RUNS, earlier)
        except InexactMergeError:
            return None


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(HISTORIES, st.booleans(), st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_give_what_all_executions_give(
    history: list[Result], by_time: bool, order: random.Random
) -> None:
    if by_time:
        history = sorted(history, key=lambda each: each.hours)
    document = Document()
    markers: list[list[MarkedExecution]] = []
    while history:
        count = order.randint(1, 6)
        part, history = history[:count], history[count:]
        # Sometimes a load is repeated: then its executions are there already.
        again = {each.number for each in part if each.arrive().id in document.stored}
        markers.append([each.arrive(is_new=each.number not in again) for each in part])
        document.stored |= {each.arrive().id: each.seen() for each in part}
        handled = [execution for marker in markers for execution in marker]
        document.load(handled)
        # A killed refresh leaves its markers behind.
        if order.random() < 0.7:
            markers.clear()
        if order.random() < 0.2:
            history = [*history, *part]
            document.load([each.arrive(is_new=False) for each in part])
            break
    expected = document.build()
    if document.rollups is not None:
        assert document.rollups == expected.stored_as()


def test_new_results_of_later_days_are_merged() -> None:
    document = Document()
    for number in range(60):
        result = Result(number, number, f"c{number}", Conclusion.PASSED, "unit", "main")
        document.stored[result.arrive().id] = result.seen()
        rollups = document.load([result.arrive()])
        assert number == 0 or rollups.executions is not None
    assert document.merges == 59


@given(results(5, 60), st.sampled_from([NEVER, day_of(after(hours=-24)), day_of(NOON)]))
def test_the_first_pass_of_a_test_gives_what_a_merge_gives(only: Result, final_day: int) -> None:
    executions = [only.arrive()]
    found = find_first_pass(executions, "main", FAILED_RUNS, final_day)
    merged = merge_test(TEST, (), executions, "main", FAILED_RUNS, (), final_day=final_day)
    if found is None:
        is_clean = only.conclusion is Conclusion.PASSED and only.branch == "main"
        assert not is_clean or only.number % 9 == 3 or final_day != NEVER
        return
    assert found.judgement == judge_rollups(merged.rollups, merged.fresh, flaky_detection=True)
    assert replace(found, judgement=None) == merged


def test_only_the_first_pass_of_a_test_is_one() -> None:
    passed, other = (
        Result(number, number, "c", Conclusion.PASSED, "unit", "main") for number in range(2)
    )
    both = [passed.arrive(), other.arrive()]
    for executions in ([], both, [passed.arrive(is_new=False)]):
        assert find_first_pass(executions, "main", FAILED_RUNS, NEVER) is None


def test_a_result_that_was_merged_before_changes_nothing() -> None:
    document = Document()
    for number in range(2):
        result = Result(number, number, f"c{number}", Conclusion.PASSED, "unit", "main")
        document.stored[result.arrive().id] = result.seen()
        rollups = document.load([result.arrive()])
    assert document.load([result.arrive()]).stored_as() == rollups.stored_as()


def test_a_marker_carries_all_that_the_rules_need() -> None:
    result = Result(1, 0, "c", Conclusion.FAILED, "unit", "main")
    execution = result.arrive()
    written = write_executions({TEST: [execution]})
    assert written is not None
    assert read_executions(orjson.loads(orjson.dumps(written.by_test))) == {TEST: [execution]}
    seen = execution.observe(frozenset())
    assert (seen.pull, seen.commit, seen.duration) == (PULL, "c", 1 / 7)
    assert execution.observe({execution.run}).infrastructure_failure
    assert read_executions(None) is None
