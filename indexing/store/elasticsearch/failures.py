"""Groups the failed executions of one test into failures, in all time slices."""

from __future__ import annotations

import uuid
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexing.models.failures import (
    Failure,
    FailureDetail,
    FailureEvent,
    FailureKey,
    FailureQuery,
)
from indexing.models.paging import Anchor, Page
from indexing.store.elasticsearch.client.clauses import any_of
from indexing.store.elasticsearch.client.scanning import scan_groups
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.listed_executions import FIELDS, ORDER, row_of
from indexing.store.elasticsearch.tests import is_test_known
from indexing.timestamps import from_microseconds

_GROUPS_A_PAGE: Final = 2_000


async def list_failures(
    cluster: Cluster, query: FailureQuery, anchor: Anchor[FailureKey], limit: int
) -> Page[Failure] | None:
    """Read one page; the cost grows with the number of failures of the test, not with the page.

    Executions that an earlier release stored have no failure id, and are left out.
    """
    if not await is_test_known(cluster, query.repository, query.test_id):
        return None
    groups = await _read_groups(cluster, query, {"exists": {"field": "failure_id"}})
    keys = sorted(groups, reverse=True)
    page = _cut(keys, anchor, limit)
    newest = await _read_newest_of_each(cluster, query, [key.id for key in page.rows])
    rows = tuple(_failure_of(groups[key], newest[key.id]) for key in page.rows if key.id in newest)
    return Page(rows, page.has_previous, page.has_next)


async def get_failure(
    cluster: Cluster, query: FailureQuery, failure_id: uuid.UUID, events: int
) -> FailureDetail | None:
    if not await is_test_known(cluster, query.repository, query.test_id):
        return None
    itself = {"term": {"failure_id": str(failure_id)}}
    groups = await _read_groups(cluster, query, itself)
    newest = await _read_newest(cluster, query, itself, events)
    if not groups or not newest:
        return None
    (group,) = groups.values()
    return FailureDetail(
        _failure_of(group, newest[0]["_source"]), tuple(_event_of(hit) for hit in newest)
    )


def _cut(keys: Sequence[FailureKey], anchor: Anchor[FailureKey], limit: int) -> Page[FailureKey]:
    """Return the page that the anchor selects from all keys, which are sorted newest first."""
    key = anchor.key
    if anchor.backward:
        end = len(keys) if key is None else sum(each > key for each in keys)
        start = max(0, end - limit)
    else:
        start = 0 if key is None else sum(each >= key for each in keys)
        end = min(len(keys), start + limit)
    return Page(tuple(keys[start:end]), has_previous=start > 0, has_next=end < len(keys))


async def _read_groups(
    cluster: Cluster, query: FailureQuery, clause: Mapping[str, Any]
) -> dict[FailureKey, Mapping[str, Any]]:
    found: dict[FailureKey, Mapping[str, Any]] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        await _query_of(cluster, query, clause),
        ("failure_id",),
        size=_GROUPS_A_PAGE,
        routing=routing_of(query.repository),
        within={"first": {"min": {"field": FINISHED_AT}}, "last": {"max": {"field": FINISHED_AT}}},
        timeouts=None,
    ):
        for bucket in buckets:
            last_at = from_microseconds(int(bucket["last"]["value"]))
            found[FailureKey(last_at, uuid.UUID(bucket["key"]["failure_id"]))] = bucket
    return found


async def _read_newest_of_each(
    cluster: Cluster, query: FailureQuery, failures: Sequence[uuid.UUID]
) -> dict[uuid.UUID, Mapping[str, Any]]:
    """Return the document of the newest execution of each of these failures."""
    if not failures:
        return {}
    clause = {"terms": {"failure_id": [*map(str, failures)]}}
    body = {
        "size": len(failures),
        "query": await _query_of(cluster, query, clause),
        "sort": [{field: "desc"} for field in ORDER],
        "collapse": {"field": "failure_id"},
        "track_total_hits": False,
        "_source": ["failure_id", "failure_type", "failure_message"],
    }
    answer = await cluster.connection.search(
        cluster.layout.executions, body, routing=routing_of(query.repository)
    )
    sources = [hit["_source"] for hit in answer["hits"]["hits"]]
    return {uuid.UUID(source["failure_id"]): source for source in sources}


async def _read_newest(
    cluster: Cluster, query: FailureQuery, clause: Mapping[str, Any], limit: int
) -> list[Mapping[str, Any]]:
    body = {
        "size": limit,
        "query": await _query_of(cluster, query, clause),
        "sort": [{field: "desc"} for field in ORDER],
        "track_total_hits": False,
        "_source": [*FIELDS, "failure_type", "failure_message", "failure_trace"],
    }
    answer = await cluster.connection.search(
        cluster.layout.executions, body, routing=routing_of(query.repository)
    )
    hits: list[Mapping[str, Any]] = answer["hits"]["hits"]
    return hits


async def _query_of(
    cluster: Cluster, query: FailureQuery, clause: Mapping[str, Any]
) -> dict[str, Any]:
    retention = await cluster.control.read_retention()
    filters = [
        {"term": {"repository_id": routing_of(query.repository)}},
        {"term": {"test_id": str(query.test_id)}},
        clause,
        *any_of({"branch": query.branches}),
    ]
    return {"bool": {"filter": filters, "must_not": retention.hidden(FINISHED_AT)}}


def _failure_of(bucket: Mapping[str, Any], newest: Mapping[str, Any]) -> Failure:
    last_at = from_microseconds(int(bucket["last"]["value"]))
    return Failure(
        key=FailureKey(last_at, uuid.UUID(bucket["key"]["failure_id"])),
        exception_type=newest.get("failure_type"),
        exception_message=newest.get("failure_message"),
        failure_count=bucket["doc_count"],
        first_failure_at=from_microseconds(int(bucket["first"]["value"])),
    )


def _event_of(hit: Mapping[str, Any]) -> FailureEvent:
    source = hit["_source"]
    trace = source.get("failure_trace")
    return FailureEvent(
        row_of(hit), source.get("failure_message"), None if trace is None else b64decode(trace)
    )
