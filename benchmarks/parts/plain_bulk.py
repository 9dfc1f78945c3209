"""The least cost of loading into Elasticsearch: the same documents, by the official helper."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from elasticsearch import AsyncElasticsearch
from elasticsearch.helpers import async_bulk

from benchmarks.data.generated import MEASURED
from indexing.models.events import StoredEvent
from indexing.models.executions import Execution, Run
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.event_writing import make_document
from indexing.store.elasticsearch.execution_documents import list_results
from indexing.store.elasticsearch.indices.layout import (
    EVENTS_MAPPING,
    EXECUTIONS_MAPPING,
    Layout,
)


async def time_plain_bulk(
    url: str, mapping: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]
) -> float:
    """Return the seconds until all documents are searchable in a new index; then delete it."""
    index = f"plain-{time.time_ns()}"
    async with AsyncElasticsearch(url, request_timeout=60) as client:
        await client.indices.create(
            index=index,
            mappings={"dynamic": False, "properties": dict(mapping)},
            settings={"number_of_shards": 2, "number_of_replicas": 0},
        )
        try:
            start = time.perf_counter()
            await async_bulk(client, _actions(index, documents))
            await client.indices.refresh(index=index)
            return time.perf_counter() - start
        finally:
            await client.indices.delete(index=index)


async def time_events(url: str, events: Iterable[StoredEvent]) -> float:
    """Time the documents of events, without anything derived."""
    return await time_plain_bulk(url, EVENTS_MAPPING, [make_document(e, 0, 0) for e in events])


async def time_executions(url: str, batches: Iterable[tuple[Run, Sequence[Execution]]]) -> float:
    """Time the documents of executions, without anything derived."""
    layout = Layout("plain")
    documents = [
        orjson.loads(result.encode(0))
        for run, executions in batches
        for result in list_results(layout, MEASURED, {run: executions})
    ]
    return await time_plain_bulk(url, EXECUTIONS_MAPPING, documents)


def _actions(index: str, documents: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    routing = routing_of(MEASURED)
    for number, document in enumerate(documents):
        yield {
            "_op_type": "create",
            "_index": index,
            "_id": str(number),
            "_routing": routing,
            "_source": document,
        }
