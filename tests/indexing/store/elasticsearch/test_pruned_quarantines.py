"""Pruning makes automatic quarantines final, also those that another process writes meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from indexing.store.elasticsearch import maintenance
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import after
from tests.contracts.quarantining import LATER, listed, load, set_up


async def test_a_slot_that_is_written_after_it_was_read_is_read_again(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_up(store, auto_quarantine=True)
    await load(store, "P", at=-80, job="gone")
    await load(store, "F", at=5)
    before = await listed(store)
    cluster: Cluster = store._cluster
    slots, reads = cluster.layout.quarantines, 0

    async def interfere(
        connection: Any, index: str, *about: Any, **options: Any
    ) -> AsyncIterator[Any]:
        nonlocal reads
        async for hits in scan(connection, index, *about, **options):
            if index == slots:
                reads += 1
            if index == slots and reads == 1:
                again = [
                    Operation("index", slots, hit["_id"], hit["_routing"], hit["_source"])
                    for hit in hits
                ]
                await bulk.send(cluster.connection, again, visible=True)
            yield hits

    monkeypatch.setattr(maintenance, "scan", interfere)
    await store.prune(after(hours=-79.5), LATER)
    assert reads == 2
    await load(store, "P", at=4)
    assert await listed(store) == before
