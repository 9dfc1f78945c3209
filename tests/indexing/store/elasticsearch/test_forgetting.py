"""A test that is forgotten while results of it arrive."""

from __future__ import annotations

import pytest

from indexing.models.executions import Conclusion
from indexing.models.selections import ExecutionSelection
from indexing.names import RepositoryName
from indexing.store.elasticsearch import removal
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, make_executions, make_run


async def load(store: ElasticsearchStore, number: int, conclusion: Conclusion) -> None:
    run = make_run(f"{number}", commit=f"c{number}")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", conclusion)])})
    await store.refresh_tests(NOON)


async def test_results_that_arrive_meanwhile_are_forgotten_too(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop, passes = removal._drop_test, 0

    async def drop_later(cluster: Cluster, repository: RepositoryName, test_name: str) -> bool:
        nonlocal passes
        passes += 1
        if passes == 1:
            await load(other, 2, Conclusion.FAILED)
        return await drop(cluster, repository, test_name)

    monkeypatch.setattr(removal, "_drop_test", drop_later)
    await store.ensure_repository(WIDGETS)
    await load(store, 1, Conclusion.PASSED)
    count = await store.forget_test(WIDGETS, "t", NOON)
    assert (count.tests, count.executions) == (1, 2)
    extent = await store.measure_executions(ExecutionSelection(WIDGETS, test_name="t"))
    assert (extent.executions, extent.tests) == (0, 0)
