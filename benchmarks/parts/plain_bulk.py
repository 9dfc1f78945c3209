"""The least cost of loading into Elasticsearch: complete documents, by the official helper."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from elasticsearch import AsyncElasticsearch
from elasticsearch.helpers import async_bulk

from benchmarks.data.generated import MEASURED
from indexing.models.events import StoredEvent
from indexing.models.executions import Execution, Run
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.indices.layout import EVENTS_MAPPING, EXECUTIONS_MAPPING
from indexing.timestamps import to_microseconds


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
    """Time events in the form that the store keeps."""
    return await time_plain_bulk(url, EVENTS_MAPPING, [_event_document(e) for e in events])


async def time_executions(url: str, batches: Iterable[tuple[Run, Sequence[Execution]]]) -> float:
    """Time executions, without derived data."""
    documents = [_execution_document(run, one) for run, found in batches for one in found]
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


def _event_document(event: StoredEvent) -> dict[str, Any]:
    return {
        "repository_id": routing_of(event.repository),
        "received_at": to_microseconds(event.key.received_at),
        "id": event.key.id,
        "type": event.type,
        "pull_request": event.pull_request,
        "base_ref": event.base_ref,
        "epoch": 0,
        "body": event.body.decode(),
    }


def _execution_document(run: Run, execution: Execution) -> dict[str, Any]:
    return {
        "repository_id": routing_of(MEASURED),
        "execution_id": execution.id.hex(),
        "test_id": execution.test_name,
        "run": run.run_id,
        "pipeline_name": run.pipeline_name,
        "job_name": run.job_name,
        "branch": run.branch,
        "conclusion": execution.conclusion.value,
        "finished_at": to_microseconds(execution.finished_at),
        "epoch": 0,
        "duration": execution.duration,
        "filepath": execution.filepath,
        "function_name": execution.function_name,
        "failure_type": execution.failure_type,
        "failure_message": execution.failure_message,
    }
