"""The executions of one test, on any store: the rows of a plain oracle, page by page."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from indexing.failures.fingerprint import identify_failure
from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.listed_executions import ExecutionKey, ExecutionQuery, ListedExecution
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import FOREIGN, GADGETS, NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.contracts.walking import walk_both_ways

TEST_ID = derive_test_id(WIDGETS, "hinge")
START, END = NOON - timedelta(days=60), NOON + timedelta(days=1)
RUNS = [
    make_run(f"{number}", job=job, branch=branch, commit=f"c{number}", pull=pull, job_url=url)
    for number, (job, branch, pull, url) in enumerate(
        [
            ("unit", "main", None, None),
            ("unit", "topic", PULL, "https://ci.example/1"),
            ("windows", "main", None, "https://ci.example/2"),
            ("windows", "é/ü", None, None),
        ]
    )
]


def ask(test: str = "hinge", repository: RepositoryName = WIDGETS, **rest: Any) -> ExecutionQuery:
    query = ExecutionQuery(repository, derive_test_id(repository, test), START, END)
    return replace(query, **rest)


async def load(store: Store, repository: RepositoryName = WIDGETS) -> list[tuple[Run, Execution]]:
    """Load executions of two months in all runs, some of them at the same moment."""
    random = Random(7)
    found = []
    await store.ensure_repository(repository)
    results: dict[Run, list[Execution]] = {run: [] for run in RUNS}
    for run in RUNS:
        for day in range(0, 60, 3):
            executions = make_executions(
                run,
                [("hinge", random.choice(list(Conclusion))), ("lid", Conclusion.FAILED)],
                NOON - timedelta(days=day),
                repository=repository,
                duration=random.choice([None, 0.25]),
                failure_type="Stuck",
                failure_message=f"it is stuck: {day}",
                failure_trace=pack_trace("at hinge"),
            )
            results[run] += executions
            found += [(run, each) for each in executions if each.test_name == "hinge"]
    await store.write_results(repository, results)
    await store.refresh_tests(NOON, None, repository)
    return found


def row_of(run: Run, execution: Execution) -> ListedExecution:
    return ListedExecution(
        key=ExecutionKey(execution.finished_at, execution.id),
        conclusion=execution.conclusion,
        needed_retries=execution.needed_retries,
        duration=execution.duration,
        branch=run.branch,
        commit=run.commit,
        pipeline_name=run.pipeline_name,
        job_name=run.job_name,
        run_id=run.run_id,
        attempt=run.attempt,
        pull_number=run.pull_number,
        job_url=run.job_url,
        failure_id=identify_failure(TEST_ID, execution),
    )


def key_of(row: ListedExecution) -> ExecutionKey:
    return row.key


async def walk(store: Store, query: ExecutionQuery, limit: int = 7) -> list[ListedExecution]:
    async def read(anchor: Anchor[ExecutionKey]) -> Page[ListedExecution]:
        page = await store.list_executions(query, anchor, limit)
        assert page is not None
        return page

    return await walk_both_ways(read)


FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "branch": {"branches": ("é/ü", "topic")},
    "commit": {"commits": ("c2",)},
    "pipeline": {"pipelines": ("ci",)},
    "another pipeline": {"pipelines": ("nightly",)},
    "job": {"jobs": ("windows",)},
    "conclusion": {"conclusions": (Conclusion.FAILED, Conclusion.SKIPPED)},
    "range": {"start": NOON - timedelta(days=30), "end": NOON - timedelta(days=3)},
    "empty range": {"start": NOON, "end": NOON},
    "everything": {"branches": ("main",), "jobs": ("unit",), "conclusions": (Conclusion.PASSED,)},
}


async def test_pages_hold_what_the_filters_ask_for_newest_first(store: Store) -> None:
    loaded = await load(store)
    # Another repository and another test have executions of the same names.
    await load(store, FOREIGN)
    for name, chosen in FILTERS.items():
        query = ask(**chosen)
        expected = [
            row_of(run, execution)
            for run, execution in loaded
            if query.start <= execution.finished_at < query.end
            and (not query.branches or run.branch in query.branches)
            and (not query.commits or run.commit in query.commits)
            and (not query.pipelines or run.pipeline_name in query.pipelines)
            and (not query.jobs or run.job_name in query.jobs)
            and (not query.conclusions or execution.conclusion in query.conclusions)
        ]
        expected.sort(key=key_of, reverse=True)
        assert await walk(store, query) == expected, name


async def test_loading_again_changes_nothing(store: Store) -> None:
    await load(store)
    before = await walk(store, ask(), 100)
    await load(store)
    assert await walk(store, ask(), 100) == before


async def test_a_test_of_another_repository_and_an_unknown_one_have_no_list(store: Store) -> None:
    await load(store)
    await store.ensure_repository(GADGETS)
    for repository in (GADGETS, FOREIGN):
        query = ask(repository=repository, test_id=TEST_ID)
        assert await store.list_executions(query, Anchor(), 10) is None
    assert await store.list_executions(ask("never seen"), Anchor(), 10) is None


async def test_removed_executions_and_those_of_retention_are_gone(store: Store) -> None:
    await load(store)
    await store.prune(NOON - timedelta(days=30), after(hours=1))
    rows = await walk(store, ask(), 100)
    assert rows
    assert all(row.key.finished_at >= NOON - timedelta(days=30) for row in rows)
    await store.forget_test(WIDGETS, "hinge", after(hours=1))
    assert await store.list_executions(ask(), Anchor(), 10) is None


@pytest.mark.parametrize("moment", [NOON - timedelta(days=31), NOON])
async def test_an_execution_with_a_new_date_is_listed_where_it_was(
    store: Store, moment: datetime
) -> None:
    run = make_run()
    await store.ensure_repository(WIDGETS)
    (execution,) = make_executions(run, [("hinge", Conclusion.PASSED)], NOON - timedelta(days=40))
    for each in (execution, replace(execution, finished_at=moment)):
        await store.write_results(WIDGETS, {run: [each]})
        await store.refresh_tests(NOON)
    assert await walk(store, ask()) == [row_of(run, execution)]
