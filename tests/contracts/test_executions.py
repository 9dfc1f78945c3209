"""Executions in any store, and the data derived from them: independent of the order of arrival."""

from __future__ import annotations

import itertools
import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.errors import UnknownRepositoryError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.paging import Anchor
from indexing.models.repositories import RepositoryChange
from indexing.models.selections import ExecutionSelection
from indexing.models.tests import HealthStatus, TestDetail, TestHealth, TestMetadata, TestQuery
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount, Store
from tests.builders import FOREIGN, NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.contracts.loading import detail, load

_numbers = itertools.count()

PASSED, FAILED, SKIPPED = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED


async def test_executions_need_a_known_repository(store: Store) -> None:
    run = make_run()
    with pytest.raises(UnknownRepositoryError):
        await store.write_results(WIDGETS, {run: make_executions(run, [("t", PASSED)])})


async def test_the_same_report_again_changes_nothing(store: Store) -> None:
    results = [("t", PASSED), ("u", FAILED), ("t", PASSED)]
    assert await load(store, make_run(), *results) == ExecutionCount(3, 0)
    status, before = await store.get_status(NOON), await detail(store, "u")
    assert await load(store, make_run(), *results) == ExecutionCount(0, 3)
    assert (await store.get_status(NOON), await detail(store, "u")) == (status, before)


async def test_an_execution_that_is_stored_keeps_its_time(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    (execution,) = make_executions(run, [("t", FAILED)])
    for moved in (execution, replace(execution, finished_at=after(days=3))):
        await store.write_results(WIDGETS, {run: [moved]})
    await store.refresh_tests(NOON)
    assert (await detail(store, "t")).health.last_failure_at == NOON


async def test_an_execution_is_stored_once_in_a_job_that_names_several_commits(
    store: Store,
) -> None:
    await store.ensure_repository(WIDGETS)
    run, moved = make_run(), make_run(commit="moved", branch="feature")
    (execution,) = make_executions(run, [("t", FAILED)])
    assert await store.write_results(WIDGETS, {run: [execution]}) == ExecutionCount(1, 0)
    later = replace(execution, finished_at=after(hours=1))
    both = {moved: [later], run: [execution]}
    assert await store.write_results(WIDGETS, both) == ExecutionCount(0, 2)
    await store.refresh_tests(NOON)
    found = await detail(store, "t")
    assert (found.health.last_failure_at, found.health.first_failure_commit) == (NOON, run.commit)


async def test_an_execution_is_stored_once_even_if_another_run_names_it(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    first, second = make_run("1"), make_run("2")
    (execution,) = make_executions(first, [("t", PASSED)])
    assert await store.write_results(WIDGETS, {first: [execution]}) == ExecutionCount(1, 0)
    assert await store.write_results(WIDGETS, {second: [execution]}) == ExecutionCount(0, 1)


async def test_an_execution_that_comes_twice_in_one_call_keeps_its_first_time(
    store: Store,
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    (execution,) = make_executions(run, [("t", FAILED)])
    # A day of the month before.
    copy = replace(execution, finished_at=after(days=-2))
    assert await store.write_results(WIDGETS, {run: [execution, copy]}) == ExecutionCount(1, 1)
    await store.refresh_tests(NOON)
    found = await detail(store, "t")
    assert found.health.first_failure_at == found.health.last_failure_at == NOON
    extent = await store.measure_executions(ExecutionSelection(WIDGETS, test_name="t"))
    assert (extent.executions, extent.oldest, extent.newest) == (1, NOON, NOON)


async def test_a_failure_has_its_commit_and_pull_request(store: Store) -> None:
    await load(store, make_run("1"), ("t", PASSED), at=0)
    await load(store, make_run("2", commit="bad", pull=PULL), ("t", FAILED), at=1)
    await load(store, make_run("3", commit="worse"), ("t", FAILED), at=2)
    await load(store, make_run("4", commit="good"), ("t", PASSED), at=3)
    found = await detail(store, "t")
    assert found.health == TestHealth(
        health_status=HealthStatus.HEALTHY,
        last_conclusion="passed",
        failure_ratio=0.5,
        success_ratio=0.5,
        flakiness_ratio=0.0,
        first_failure_at=after(hours=1),
        first_failure_commit="bad",
        first_failure_pull=PULL,
        last_failure_at=after(hours=2),
        last_success_at=after(hours=3),
    )


async def test_a_commit_that_failed_and_passed_is_flaky(store: Store) -> None:
    await load(store, make_run("1"), ("t", FAILED))
    await load(store, make_run("1", attempt=2), ("t", PASSED), at=1)
    found = (await detail(store, "t")).health
    assert (found.health_status, found.flakiness_ratio) == (HealthStatus.FLAKY, 1.0)


async def test_a_pass_that_needed_retries_is_flaky(store: Store) -> None:
    await load(store, make_run(), ("t", PASSED), needed_retries=True)
    assert (await detail(store, "t")).health.health_status is HealthStatus.FLAKY


async def test_without_flaky_detection_nothing_is_called_flaky(store: Store) -> None:
    await load(store, make_run(), ("t", PASSED), needed_retries=True)
    await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    await store.refresh_tests(NOON)
    found = await detail(store, "t")
    assert found.health.health_status is HealthStatus.HEALTHY
    assert not found.flaky_detection_enabled


async def test_metadata_is_of_the_newest_execution_that_states_it(store: Store) -> None:
    await load(store, make_run("2"), ("t", PASSED), at=2, framework="pytest")
    await load(
        store, make_run("1"), ("t", PASSED), at=1, framework="nose", filepath="a.py", language="py"
    )
    assert (await detail(store, "t")).metadata == TestMetadata(
        framework="pytest", filepath="a.py", language="py"
    )


async def test_other_branches_count_for_nothing(store: Store) -> None:
    await load(store, make_run(branch="feature"), ("t", FAILED), framework="pytest")
    assert await detail(store, "t") == TestDetail(
        WIDGETS, "t", derive_test_id(WIDGETS, "t"), True, TestHealth(), TestMetadata()
    )


async def test_a_changed_default_branch_is_evaluated_again(store: Store) -> None:
    await load(store, make_run("1", branch="main", commit="a"), ("t", FAILED))
    await load(store, make_run("2", branch="next", commit="b"), ("t", PASSED), at=1)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await store.refresh_tests(NOON)
    found = (await detail(store, "t")).health
    assert (found.health_status, found.first_failure_at) == (HealthStatus.HEALTHY, None)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="main"), NOON)
    await store.refresh_tests(NOON)
    found = (await detail(store, "t")).health
    assert (found.first_failure_commit, found.last_success_at) == ("a", None)


async def test_a_run_that_failed_as_a_whole_is_no_evidence(store: Store) -> None:
    names = [f"t{n}" for n in range(20)]
    await load(store, make_run("1", commit="a"), *((n, PASSED) for n in names))
    await load(store, make_run("2", commit="b"), *((n, FAILED) for n in names), at=1)
    found = (await detail(store, "t0")).health
    assert (found.failure_ratio, found.last_conclusion) == (0.0, "failed")
    assert found.first_failure_at == after(hours=1)
    # The rest of that run arrives: it was not an infrastructure failure after all.
    more = [(f"more{n}", PASSED) for n in range(10)]
    await load(store, make_run("2", commit="b"), *more, at=1)
    assert (await detail(store, "t0")).health.failure_ratio == 0.5


@pytest.mark.parametrize(
    ("early", "late", "ratio"), [(FAILED, FAILED, 0.0), (PASSED, FAILED, 0.5)], ids=["down", "half"]
)
async def test_retention_does_not_judge_again_whether_a_run_failed_as_a_whole(
    store: Store, early: Conclusion, late: Conclusion, ratio: float
) -> None:
    """What is left of a run says less about its machine than all of its results did."""
    names = [f"t{n}" for n in range(21)]
    run = make_run("1", commit="a")
    await load(store, run, *((f"early{n}", early) for n in range(21)))
    await load(store, run, *((name, late) for name in names[: 5 if early is FAILED else 21]), at=1)
    await load(store, make_run("2", commit="b"), *((name, PASSED) for name in names), at=2)
    assert (await detail(store, "t0")).health.failure_ratio == ratio
    assert (await store.prune(after(minutes=30), NOON)).executions == 21
    await store.rebuild(NOON)
    assert (await detail(store, "t0")).health.failure_ratio == ratio


async def test_first_and_last_outlive_the_executions_behind_them(store: Store) -> None:
    await load(store, make_run("1", commit="a", pull=PULL), ("t", FAILED), at=0)
    await load(store, make_run("2", commit="b"), ("t", PASSED), at=1)
    await load(store, make_run("3", commit="c"), ("t", FAILED), at=2)
    await load(store, make_run("4", commit="d"), ("t", SKIPPED), at=48)
    count = await store.prune(after(hours=24), NOON)
    assert count.executions == 3
    found = (await detail(store, "t")).health
    assert (found.first_failure_at, found.first_failure_commit, found.first_failure_pull) == (
        NOON,
        "a",
        PULL,
    )
    assert (found.last_failure_at, found.last_success_at) == (after(hours=2), after(hours=1))
    assert (found.health_status, found.failure_ratio) == (HealthStatus.UNKNOWN, 0.0)


async def test_a_test_with_nothing_left_leaves_the_search_and_keeps_its_detail(
    store: Store,
) -> None:
    await load(store, make_run(), ("t", FAILED))
    await store.prune(after(days=1), NOON)
    page = await store.search_tests(TestQuery(WIDGETS, ("*",)), Anchor(), 10)
    assert page.rows == ()
    found = (await detail(store, "t")).health
    assert (found.last_conclusion, found.last_failure_at) == ("unknown", NOON)


async def test_nothing_is_left_to_be_worked_out_when_a_prune_is_done(store: Store) -> None:
    await load(store, make_run(), *((f"t{number}", FAILED) for number in range(30)))
    await load(store, make_run("2"), ("t1", PASSED), at=72)
    await store.refresh_tests(NOON)
    count = await store.prune(after(days=1), NOON)
    assert count.executions == 30
    assert (await store.get_status(NOON)).stale_tests == 0


async def test_a_run_that_failed_as_a_whole_stays_so_when_a_part_of_it_is_dropped(
    store: Store,
) -> None:
    names = [f"t{n}" for n in range(30)]
    await load(store, make_run(), *((n, FAILED) for n in names), at=-40 * 24)
    await load(store, make_run(), *((n, FAILED) for n in names), at=-10 * 24)
    await store.prune(after(days=-30), NOON)
    found = (await detail(store, "t0")).health
    assert (found.failure_ratio, found.health_status) == (0.0, HealthStatus.UNKNOWN)


async def test_a_failure_at_the_beginning_of_time_is_exact_to_the_microsecond(store: Store) -> None:
    beginning = datetime(1, 1, 1, microsecond=3, tzinfo=UTC)
    await store.ensure_repository(WIDGETS)
    run = make_run("1")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", FAILED)], beginning)})
    await load(store, make_run("2"), ("t", PASSED))
    assert (await detail(store, "t")).health.first_failure_at == beginning


async def test_metadata_is_of_the_window_alone(store: Store) -> None:
    await load(store, make_run("1"), ("t", PASSED), at=-40 * 24, framework="nose", language="py")
    await load(store, make_run("2"), ("t", PASSED), framework="pytest")
    assert (await detail(store, "t")).metadata == TestMetadata(framework="pytest")


async def test_a_test_is_found_in_its_own_repository_only(store: Store) -> None:
    await load(store, make_run(), ("t", PASSED))
    await store.ensure_repository(FOREIGN)
    test_id = derive_test_id(WIDGETS, "t")
    assert await store.get_test(RepositoryName("Acme", "WIDGETS"), test_id) is not None
    assert await store.get_test(FOREIGN, test_id) is None
    assert await store.get_test(WIDGETS, uuid.uuid4()) is None


async def test_no_refresh_waits_for_tests_of_another_repository(store: Store) -> None:
    run = make_run()
    for repository in (WIDGETS, FOREIGN):
        await store.ensure_repository(repository)
        executions = make_executions(run, [("t", PASSED)], repository=repository)
        await store.write_results(repository, {run: executions})
    assert await store.refresh_tests(NOON, repository=RepositoryName("ACME", "Widgets")) == 1
    assert (await detail(store, "t")).health.last_conclusion == "passed"
    assert (await detail(store, "t", FOREIGN)).health.last_conclusion == "unknown"
    steps: list[int] = []
    assert await store.refresh_tests(NOON, steps.append) == 1
    assert steps == [1]


REPORTS = st.lists(
    st.tuples(
        st.sampled_from(["main", "feature"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["unit", "slow"]),
        st.integers(0, 60 * 24),
        st.lists(
            st.tuples(st.sampled_from(["t", "u"]), st.sampled_from(Conclusion)),
            min_size=1,
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(reports=REPORTS, order=st.randoms(use_true_random=False))
async def test_any_order_and_any_split_give_the_same_state(
    store: Store,
    reports: list[tuple[str, str, str, int, list[tuple[str, Conclusion]]]],
    order: random.Random,
) -> None:
    batches: list[tuple[Run, list[Execution]]] = []
    # Hypothesis runs many examples in one store: each needs its own repositories.
    number = next(_numbers)
    shuffled = RepositoryName("order", f"s{number}")
    straight = RepositoryName("order", f"o{number}")
    for index, (branch, commit, job, hours, results) in enumerate(reports):
        run = make_run(str(index), branch=branch, commit=commit, job=job)
        batches.append((run, make_executions(run, results, NOON + timedelta(hours=hours))))

    await store.ensure_repository(straight)
    for run, executions in batches:
        await store.write_results(straight, {run: _of(straight, executions)})
    await store.refresh_tests(NOON)

    await store.ensure_repository(shuffled)
    singles = [(run, [execution]) for run, executions in batches for execution in executions]
    order.shuffle(singles)
    for run, executions in singles:
        await store.write_results(shuffled, {run: _of(shuffled, executions)})
        await store.refresh_tests(NOON)

    assert await _state(store, shuffled) == await _state(store, straight)


def _of(repository: RepositoryName, executions: list[Execution]) -> list[Execution]:
    """Return the same executions with the ids of another repository."""
    key = repository.key.encode()
    return [
        replace(e, id=uuid.uuid5(uuid.UUID(bytes=e.id), key.decode()).bytes) for e in executions
    ]


async def _state(store: Store, repository: RepositoryName) -> list[object]:
    rows = (await store.search_tests(TestQuery(repository, ("*",)), Anchor(), 100)).rows
    state: list[object] = [row.key for row in rows]
    for name in ("t", "u"):
        found = await store.get_test(repository, derive_test_id(repository, name))
        state.append(found and (found.health, found.metadata))
    return state
