"""A refresh whose last writes are delayed, while another one without the lease goes past it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from indexing.models.executions import Conclusion
from indexing.models.repositories import RepositoryChange
from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import cluster_of

pytestmark = pytest.mark.fresh_indices


async def list_changes(store: ElasticsearchStore) -> list[dict[str, Any]]:
    """Return the stored changes of health."""
    cluster = cluster_of(store)
    await cluster.connection.refresh(cluster.layout.changes)
    body = {"size": 100, "sort": [{"place": "asc"}]}
    found = await cluster.connection.search(cluster.layout.changes, body)
    return [hit["_source"] for hit in found["hits"]["hits"]]


async def test_delayed_writes_leave_no_changes_of_health_of_an_earlier_branch(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_lease, "WAIT_SECONDS", 0.3)
    await store.ensure_repository(WIDGETS)
    for days in (-3, -2):
        run = make_run(str(days), commit=str(days))
        conclusion = Conclusion.FAILED if days == -3 else Conclusion.PASSED
        given = make_executions(run, [("t", conclusion)], after(days=days))
        await store.write_results(WIDGETS, {run: given})
    connection = cluster_of(store).connection
    request, is_held, may_go_on = connection.request, asyncio.Event(), asyncio.Event()

    async def hold(method: str, target: str, body: Any = None, **options: Any) -> Any:
        if isinstance(body, bytes) and b"-identities-" in body and not is_held.is_set():
            is_held.set()
            await may_go_on.wait()
        return await request(method, target, body, **options)

    monkeypatch.setattr(connection, "request", hold)
    refreshing = asyncio.create_task(store.refresh_tests(NOON, repository=WIDGETS))
    await is_held.wait()
    await other.set_repository(WIDGETS, RepositoryChange(default_branch="next"), NOON)
    await other.refresh_tests(NOON, repository=WIDGETS)
    may_go_on.set()
    await refreshing
    await store.refresh_tests(NOON)
    found = await list_changes(store)
    await store.rebuild(NOON)
    assert await list_changes(store) == found
