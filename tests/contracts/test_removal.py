"""Data that an operator removes from any store: mistaken runs, wrong dates, whole tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from indexing.accepted_times import accepted_times
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Run
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.models.tests import HealthStatus, TestQuery
from indexing.store.interface import ForgetCount, Store
from tests.builders import GADGETS, NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.contracts.loading import detail, load, of_run, state

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
MISDATED = ExecutionSelection(outside=accepted_times(NOON))
FAR_FUTURE = datetime(2262, 4, 11, tzinfo=UTC)
HOURS_TO_1970 = (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) - NOON).total_seconds() / 3600
HOURS_TO_2262 = (FAR_FUTURE - NOON).total_seconds() / 3600


async def test_an_undone_run_is_as_if_it_had_never_come(store: Store) -> None:
    await load(store, make_run("1", commit="a"), ("t", FAILED), ("u", PASSED))
    await load(store, make_run("2", commit="b"), ("t", PASSED), ("u", PASSED), at=1)
    before = await state(store)
    for _ in range(2):
        await load(store, make_run("9", commit="x", pull=PULL), ("t", FAILED), ("u", FAILED), at=-1)
        await load(store, make_run("9", attempt=2, commit="y"), ("t", PASSED), at=2)
        with_it = await state(store)
        assert with_it != before
        assert await store.remove_executions(of_run("9"), NOON) == 3
        assert await state(store) == before
        assert await store.remove_executions(of_run("9"), NOON) == 0
    await load(store, make_run("9", commit="x", pull=PULL), ("t", FAILED), ("u", FAILED), at=-1)
    await load(store, make_run("9", attempt=2, commit="y"), ("t", PASSED), at=2)
    assert await state(store) == with_it
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_a_selection_is_measured_before_its_removal(store: Store) -> None:
    await load(store, make_run("1"), ("t", FAILED), ("u", PASSED))
    await load(store, make_run("1", attempt=2), ("t", PASSED), at=3)
    await load(store, make_run("2"), ("t", PASSED), at=5)
    assert await store.measure_executions(of_run("1")) == SelectionExtent(
        3, 2, NOON, after(hours=3)
    )
    assert await store.measure_executions(of_run("none")) == SelectionExtent(0, 0, None, None)


@pytest.mark.parametrize(
    "selection",
    [
        {"attempt": 2},
        {"pipeline_name": "nightly"},
        {"job_name": "unit"},
        {"attempt": 1, "pipeline_name": "ci", "job_name": "unit"},
    ],
)
async def test_a_part_of_a_run_can_be_undone(store: Store, selection: dict[str, Any]) -> None:
    runs = [
        make_run("7"),
        make_run("7", attempt=2),
        make_run("7", pipeline="nightly", job="lint"),
        make_run("8"),
    ]
    await store.ensure_repository(WIDGETS)
    for number, run in enumerate(runs):
        await load(store, run, (f"t{number}", PASSED))
    matching = {
        number
        for number, run in enumerate(runs)
        if run.run_id == "7"
        and all(getattr(run, name) == value for name, value in selection.items())
    }
    assert matching
    removed = await store.remove_executions(of_run("7", **selection), NOON)
    assert removed == len(matching)
    page = await store.search_tests(TestQuery(WIDGETS, ("*",)), Anchor(), 10)
    assert {row.key.test_name for row in page.rows} == {
        f"t{number}" for number in range(len(runs)) if number not in matching
    }


async def test_other_repositories_keep_a_run_of_the_same_name(store: Store) -> None:
    await load(store, make_run("1"), ("t", PASSED))
    await load(store, make_run("1"), ("t", PASSED), repository=GADGETS)
    before = await state(store, repository=GADGETS)
    assert await store.remove_executions(of_run("1"), NOON) == 1
    assert await state(store, repository=GADGETS) == before


async def test_a_name_without_a_repository_selects_that_test_in_all_of_them(store: Store) -> None:
    for repository in (WIDGETS, GADGETS):
        await load(store, make_run("1"), ("t", FAILED), ("u", PASSED), repository=repository)
    named = ExecutionSelection(run_id="1", test_name="t")
    assert (await store.measure_executions(named)).executions == 2
    assert await store.remove_executions(named, NOON) == 2
    for repository in (WIDGETS, GADGETS):
        page = await store.search_tests(TestQuery(repository, ("*",)), Anchor(), 10)
        assert [row.key.test_name for row in page.rows] == ["u"]


async def test_first_and_last_that_outlived_their_executions_survive_an_undo(store: Store) -> None:
    await load(store, make_run("1", commit="a", pull=PULL), ("t", FAILED))
    await load(store, make_run("2", commit="b"), ("t", PASSED), at=1)
    await load(store, make_run("3", commit="c"), ("t", FAILED), at=48)
    await store.prune(after(hours=24), NOON)
    await store.remove_executions(of_run("3"), NOON)
    found = (await detail(store, "t")).health
    assert (found.first_failure_at, found.first_failure_commit) == (NOON, "a")
    assert found.first_failure_pull == PULL
    # The most recent failure has been pruned.
    assert (found.last_failure_at, found.last_success_at) == (None, after(hours=1))


async def test_undoing_a_run_of_another_branch_leaves_first_and_last_as_they_are(
    store: Store,
) -> None:
    await load(store, make_run("1", commit="a", pull=PULL), ("t", FAILED))
    await load(store, make_run("2", commit="b"), ("t", PASSED), at=1)
    await load(store, make_run("3", commit="c"), ("t", SKIPPED), at=48)
    await store.prune(after(hours=24), NOON)
    before = (await detail(store, "t")).health
    assert (before.first_failure_at, before.last_success_at) == (NOON, after(hours=1))
    for hour in (0, 1):
        await load(store, make_run("9", branch="dev", commit="z"), ("t", PASSED), at=hour)
    assert await store.remove_executions(of_run("9"), NOON) == 2
    assert (await detail(store, "t")).health == before


async def test_an_undo_after_a_change_of_the_default_branch_is_about_the_new_one(
    store: Store,
) -> None:
    await load(store, make_run("1"), ("t", FAILED))
    await load(store, make_run("2", branch="dev", commit="z"), ("t", FAILED))
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="dev"), NOON)
    await store.remove_executions(of_run("1"), NOON)
    assert (await detail(store, "t")).health.first_failure_commit == "z"
    await store.remove_executions(of_run("2"), NOON)
    assert (await detail(store, "t")).health.first_failure_at is None


async def test_undoing_a_part_of_a_job_evaluates_the_whole_job_again(store: Store) -> None:
    names = [f"t{n}" for n in range(20)]
    await load(store, make_run("1", commit="a"), *((n, FAILED) for n in names))
    assert (await detail(store, "t0")).health.failure_ratio == 0.0
    assert await store.forget_test(WIDGETS, "t19", NOON) == ForgetCount(1, 1)
    assert (await detail(store, "t0")).health.failure_ratio == 1.0
    await load(store, make_run("1", commit="a"), ("t19", FAILED))
    assert (await detail(store, "t0")).health.failure_ratio == 0.0


async def test_an_undone_job_that_failed_as_a_whole_may_come_again_whole(store: Store) -> None:
    names = [f"t{n}" for n in range(20)]
    await load(store, make_run("1", commit="a"), *((n, FAILED) for n in names))
    assert await store.remove_executions(of_run("1"), NOON) == 20
    await load(store, make_run("1", commit="a"), ("t0", FAILED))
    assert (await detail(store, "t0")).health.failure_ratio == 1.0


async def blind(store: Store) -> None:
    """Load three results, two of which disagree on one commit."""
    await load(store, make_run("1", commit="a"), ("t", FAILED))
    await load(store, make_run("2", commit="b"), ("t", PASSED), at=1)
    await load(store, make_run("3", commit="b"), ("t", FAILED), at=2)


async def test_wrong_dates_are_healed_by_one_call(store: Store) -> None:
    await blind(store)
    before = await state(store)
    assert before[1][0].health.health_status is HealthStatus.FLAKY
    await load(store, make_run("4", commit="c"), ("t", SKIPPED), at=HOURS_TO_2262)
    await load(store, make_run("5", commit="d"), ("t", FAILED), at=HOURS_TO_1970)
    found = (await detail(store, "t")).health
    assert (found.health_status, found.failure_ratio) == (HealthStatus.UNKNOWN, 0.0)
    extent = await store.measure_executions(MISDATED)
    assert (extent.executions, extent.tests, extent.bounds) == (2, 1, 1)
    assert await store.remove_executions(MISDATED, NOON) == 2
    assert await state(store) == before
    assert await store.measure_executions(MISDATED) == SelectionExtent(0, 0, None, None)


async def test_a_wrong_first_failure_goes_though_its_execution_was_pruned(store: Store) -> None:
    await blind(store)
    before = await state(store)
    await load(store, make_run("5", commit="d"), ("t", FAILED), at=HOURS_TO_1970)
    await store.prune(datetime(2001, 1, 1, tzinfo=UTC), NOON)
    assert (await detail(store, "t")).health.first_failure_commit == "d"
    assert await store.remove_executions(MISDATED, NOON) == 0
    assert await state(store) == before


async def test_wrong_dates_of_one_repository_can_be_healed_alone(store: Store) -> None:
    for repository in (WIDGETS, GADGETS):
        await load(store, make_run(), ("t", FAILED), at=HOURS_TO_2262, repository=repository)
    selection = ExecutionSelection(GADGETS, outside=accepted_times(NOON))
    assert await store.remove_executions(selection, NOON) == 1
    assert (await store.measure_executions(MISDATED)).executions == 1


async def test_a_quarantine_caused_by_a_wrong_date_is_withdrawn(store: Store) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(store, make_run("1", commit="a"), ("t", PASSED))
    before = await state(store)
    for number in range(3):
        run = make_run(f"2{number}", commit=f"b{number}")
        await load(store, run, ("t", FAILED), at=HOURS_TO_2262 + number)
    assert len((await state(store))[2]) == 1
    assert await store.remove_executions(MISDATED, NOON) == 3
    assert await state(store) == before


async def test_the_end_of_a_quarantine_answers_no_evidence_of_the_future_for_ever(
    store: Store,
) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(store, make_run("1", commit="a"), ("t", FAILED), at=HOURS_TO_2262)
    query = QuarantineQuery(WIDGETS, NOON)
    (made,) = (await store.list_quarantines(query, Anchor(), None)).rows
    await store.remove_quarantine(WIDGETS, made.key.id, NOON)
    await store.remove_executions(MISDATED, NOON)
    await load(store, make_run("2", commit="b"), ("t", FAILED), at=1)
    (again,) = (await store.list_quarantines(query, Anchor(), None)).rows
    assert again.key.id != made.key.id


async def test_a_forgotten_test_is_unknown_and_may_come_again(store: Store) -> None:
    await load(store, make_run("1", commit="a"), ("t", FAILED), ("u", PASSED))
    await load(store, make_run("2", branch="other"), ("t", FAILED), at=1)
    before, status = await state(store), await store.get_status(NOON)
    assert await store.forget_test(WIDGETS, "t", NOON) == ForgetCount(1, 2)
    assert await store.get_test(WIDGETS, derive_test_id(WIDGETS, "t")) is None
    for pattern in ("t", "*t*", "*"):
        page = await store.search_tests(TestQuery(WIDGETS, (pattern,)), Anchor(), 10)
        assert [row.key.test_name for row in page.rows] == (["u"] if pattern == "*" else [])
    counted = await store.get_status(NOON)
    assert (counted.tests, counted.identities, counted.executions) == (1, 1, 1)
    assert await store.forget_test(WIDGETS, "t", NOON) == ForgetCount(0, 0)
    await load(store, make_run("1", commit="a"), ("t", FAILED), ("u", PASSED))
    await load(store, make_run("2", branch="other"), ("t", FAILED), at=1)
    assert (await state(store), await store.get_status(NOON)) == (before, status)


async def test_a_forgotten_test_keeps_what_people_quarantined(store: Store) -> None:
    await store.set_repository(WIDGETS, RepositoryChange(auto_quarantine=True), NOON)
    await load(store, make_run("1", commit="a"), ("t", FAILED), ("u", FAILED))
    await store.add_quarantine(WIDGETS, QuarantineRequest("u", "mine"), NOON)
    for name in ("t", "u"):
        await store.forget_test(WIDGETS, name, NOON)
    query = QuarantineQuery(WIDGETS, NOON)
    (kept,) = (await store.list_quarantines(query, Anchor(), None)).rows
    assert (kept.test_name, kept.reason, kept.is_recovered) == ("u", "mine", False)


async def test_results_of_many_runs_are_written_at_once(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    names = [f"t{n}" for n in range(20)]
    runs: dict[Run, Any] = {}
    for number, name in enumerate(names):
        run = make_run("1", commit=f"c{number}")
        runs[run] = make_executions(run, [(name, FAILED)])
    other = make_run("2", commit="z")
    runs[other] = make_executions(other, [("t0", FAILED)])
    for written in (21, 0):
        count = await store.write_results(WIDGETS, runs)
        assert (count.written, count.unchanged) == (written, 21 - written)
    await store.refresh_tests(NOON)
    # The job of all those commits failed as a whole; the other one did not.
    assert (await detail(store, "t1")).health.failure_ratio == 0.0
    assert (await detail(store, "t0")).health.failure_ratio == 1.0
