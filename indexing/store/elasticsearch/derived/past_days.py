"""Keeps the sums of days that retention reaches, because the counts of runs are then deleted."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.deleting import delete_all
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.run_counts import OF_RUN
from indexing.store.elasticsearch.repositories import KIND, repository_of

PAST: Final = "past"
SUMMED: Final = ("passed", "failed", "skipped", "durations", "total_duration")

_ROWS_A_PAGE: Final = 5_000
_GROUPS_A_PAGE: Final = 1_000
_DIGEST_SIZE: Final = 16


async def keep_days(cluster: Cluster, after: int, until: int) -> None:
    """Store the sums of days on default branches: after `after`, up to and including `until`."""
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"term": {"kind": KIND}},
        "sort": [{"repository_id": "asc"}],
    }
    await cluster.connection.refresh(f"{cluster.layout.control},{cluster.layout.days}")
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        for hit in hits:
            source = hit["_source"]
            branch = repository_of(source).default_branch
            await _keep(cluster, source["repository_id"], branch, after, until)


async def prune_days(cluster: Cluster, kind: str, before: int) -> None:
    """Delete the documents of this kind of all days before the day `before`."""
    filters = [{"term": {"kind": kind}}, {"range": {"day": {"lt": before}}}]
    query = {"bool": {"filter": filters}}
    await delete_all(cluster.connection, cluster.layout.days, query, ("day", "place"))


async def _keep(cluster: Cluster, routing: str, branch: str, after: int, until: int) -> None:
    filters = [
        {"term": {"repository_id": routing}},
        {"term": {"kind": OF_RUN}},
        {"term": {"branch": branch}},
        {"range": {"day": {"gt": after, "lte": until}}},
    ]
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.days,
        {"bool": {"filter": filters}},
        ("day", "pipeline_name", "job_name"),
        size=_GROUPS_A_PAGE,
        routing=routing,
        within={name: {"sum": {"field": name}} for name in SUMMED},
    ):
        operations = []
        for bucket in buckets:
            key = bucket["key"]
            source: dict[str, Any] = {
                "repository_id": routing,
                "kind": PAST,
                "branch": branch,
                **key,
                **{name: round(bucket[name]["value"]) for name in SUMMED},
            }
            source["total_duration"] = bucket["total_duration"]["value"]
            place = _id_of(routing, branch, *key.values())
            source["place"] = place
            operations.append(Operation("index", cluster.layout.days, place, routing, source))
        await bulk.send(cluster.connection, operations, visible=True)


def _id_of(*parts: str | int) -> str:
    hashed = hashlib.blake2b(orjson.dumps(parts), digest_size=_DIGEST_SIZE).hexdigest()
    return f"{PAST}-{hashed}"
