"""Writes whose response is lost: they are sent again, and conflict with themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.changes import AnswerChanges
from indexing.models.executions import Conclusion
from indexing.models.keys import ApplicationKey, Scope
from indexing.models.paging import Anchor
from indexing.models.quarantines import ChangeAction, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.indexing.store.elasticsearch.inspection import (
    ALL,
    ask,
    cluster_of,
)

PASSED = Conclusion.PASSED
FAILED = Conclusion.FAILED


@pytest.mark.parametrize("repository", [WIDGETS, None])
async def test_a_write_whose_response_was_lost_loses_no_rows(
    store: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    repository: RepositoryName | None,
) -> None:
    """It is sent again, and conflicts with itself."""
    await load_names(store, ["t"])
    run = make_run("2")
    await store.write_results(WIDGETS, {run: make_executions(run, [("t", FAILED)])})
    connection = cluster_of(store).connection
    request = connection.request
    lost = 0

    async def lose_once(method: str, target: str, body: Any = None, **options: Any) -> Any:
        nonlocal lost
        answer = await request(method, target, body, **options)
        # The only writes with such a guard are those of tests.
        if target.startswith("/_bulk") and b'"if_seq_no"' in body and not lost:
            lost += 1
            return await request(method, target, body, **options)
        return answer

    monkeypatch.setattr(connection, "request", lose_once)
    changes: list[AnswerChanges] = []
    await store.refresh_tests(NOON, repository=repository, changed=changes.append)
    assert lost == 1
    (row,) = (await store.search_tests(ALL, Anchor(), 10)).rows
    assert row.key.executions_count == 2
    changed = frozenset[UUID]().union(*(each.tests for each in changes))
    assert changed == {derive_test_id(WIDGETS, "t")}
    layout = cluster_of(store).layout
    await connection.refresh(layout.changes)
    found = await ask(store, "POST", f"/{layout.changes}/_search", {"_source": ["health"]})
    healths = [hit["_source"].get("health") for hit in found["hits"]["hits"]]
    assert sorted(filter(None, healths)) == ["flaky", "flaky"]


@pytest.fixture
def lost(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The writes of single documents: each response is lost once, so each is sent twice."""
    connection = cluster_of(store).connection
    request = connection.request
    targets: list[str] = []

    async def lose(method: str, target: str, body: Any = None, **options: Any) -> Any:
        answer = await request(method, target, body, **options)
        if method == "PUT" and "/_doc/" in target:
            targets.append(target)
            return await request(method, target, body, **options)
        return answer

    monkeypatch.setattr(connection, "request", lose)
    return targets


async def test_a_document_whose_response_was_lost_is_written_once(
    store: ElasticsearchStore, lost: list[str]
) -> None:
    await load_names(store, ["t"])
    request = QuarantineRequest("t", "flaky since the upgrade")
    added = await store.add_quarantine(WIDGETS, request, NOON)
    assert added.is_new
    assert await store.remove_quarantine(WIDGETS, added.quarantine.key.id, after(hours=1))
    changes = await store.list_quarantine_changes(WIDGETS, after(hours=2), Anchor(), 10)
    assert [each.action for each in changes.rows] == [ChangeAction.REMOVED, ChangeAction.ADDED]
    change = RepositoryChange(default_branch="next")
    assert (await store.set_repository(WIDGETS, change, NOON)).default_branch == "next"
    key = ApplicationKey("id", "ci", Scope.READ, "acme", None, b"x" * 32, NOON)
    await store.add_key(key)
    with pytest.raises(ConflictError):
        await store.add_key(replace(key, name="another"))
    assert len(lost) >= 5


async def test_a_lease_whose_response_was_lost_is_held_at_once(
    store: ElasticsearchStore, other: ElasticsearchStore, lost: list[str]
) -> None:
    async with cluster_of(store).refresh_leases.hold(routing_of(WIDGETS)) as lease:
        assert lost
        assert lease.is_clean
        assert not lease.met_others
        async with cluster_of(other).refresh_leases.hold(routing_of(FOREIGN)) as another:
            assert another.is_clean
