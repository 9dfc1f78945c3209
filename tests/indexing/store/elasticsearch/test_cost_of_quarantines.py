"""What changes of quarantines read in Elasticsearch, with any number of executions."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after
from tests.contracts.quarantining import add, load
from tests.indexing.store.elasticsearch.inspection import cluster_of


def record_targets(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the targets of all requests from now on."""
    connection = cluster_of(store).connection
    request, targets = connection.request, list[str]()

    async def send(method: str, target: str, *about: Any, **options: Any) -> Any:
        targets.append(target)
        return await request(method, target, *about, **options)

    monkeypatch.setattr(connection, "request", send)
    return targets


async def test_a_new_reason_reads_no_executions(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await add(store)
    await load(store, "P" * 10, at=1)
    targets = record_targets(store, monkeypatch)
    quarantine = await add(store, at=after(days=1), reason="flaps again")
    assert (quarantine.reason, quarantine.is_recovered) == ("flaps again", True)
    assert quarantine.key.created_at == NOON
    assert [target for target in targets if "-executions-" in target] == []
