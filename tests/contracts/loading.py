"""Loads results into a store, and reads back what clients see of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Run
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.models.selections import ExecutionSelection
from indexing.models.tests import TestDetail, TestQuery
from indexing.names import RepositoryName
from indexing.store.interface import ExecutionCount, Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run


async def load(
    store: Store,
    run: Run,
    *results: tuple[str, Conclusion],
    at: float = 0,
    repository: RepositoryName = WIDGETS,
    **rest: object,
) -> ExecutionCount:
    """Load one report, so many hours after noon."""
    await store.ensure_repository(repository)
    executions = make_executions(run, results, after(hours=at), repository=repository, **rest)
    count = await store.write_results(repository, {run: executions})
    await store.refresh_tests(NOON)
    return count


async def detail(store: Store, name: str, repository: RepositoryName = WIDGETS) -> TestDetail:
    found = await store.get_test(repository, derive_test_id(repository, name))
    assert found is not None
    return found


async def state(
    store: Store, names: Sequence[str] = ("t", "u"), repository: RepositoryName = WIDGETS
) -> list[Any]:
    """Return everything that clients can see of these tests."""
    page = await store.search_tests(TestQuery(repository, ("*",)), Anchor(), 100)
    found = [await store.get_test(repository, derive_test_id(repository, name)) for name in names]
    query = QuarantineQuery(repository, after(days=1))
    quarantines = (await store.list_quarantines(query, Anchor(), None)).rows
    records = [(q.key.id, q.test_name, q.reason, q.source, q.is_recovered) for q in quarantines]
    return [page.rows, found, records]


def of_run(run_id: str, **rest: Any) -> ExecutionSelection:
    return ExecutionSelection(WIDGETS, run_id=run_id, **rest)


async def write_result(store: Store, run_id: str, conclusion: Conclusion) -> None:
    """Store a result of the test `t`, which no refresh has judged yet."""
    run = make_run(run_id, commit=f"c{run_id}")
    executions = make_executions(run, [("t", conclusion)], after(hours=1))
    await store.write_results(WIDGETS, {run: executions})
