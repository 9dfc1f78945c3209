"""Reads all results of a query, page by page; for maintenance and refreshes, not for readers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from indexing.store.elasticsearch.client.connection import WRITING, Connection

Hit = Mapping[str, Any]


async def scan(
    connection: Connection, index: str, body: Mapping[str, Any], *, routing: str | None = None
) -> AsyncGenerator[Sequence[Hit], None]:
    """Yield the hits in pages of the body's `size`; its `sort` must end in a unique field.

    Yields at least one page, which may be empty.
    """
    asked = {"track_total_hits": False, **body}
    while True:
        answer = await connection.search(index, asked, routing=routing, patience=WRITING)
        hits = answer["hits"]["hits"]
        yield hits
        if len(hits) < body["size"]:
            return
        asked["search_after"] = hits[-1]["sort"]


async def scan_groups(
    connection: Connection,
    index: str,
    query: Mapping[str, Any],
    fields: Sequence[str | Mapping[str, Any]],
    *,
    size: int,
    routing: str | None = None,
    within: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """Yield a bucket for each existing combination of these fields, in pages of `size`.

    A field may be another source of a composite aggregation by its name, such as a histogram.
    `within` are the sub-aggregations of each bucket. Without an index there are no buckets.
    """
    composite: dict[str, Any] = {
        "size": size,
        "sources": [
            {field: {"terms": {"field": field}}} if isinstance(field, str) else field
            for field in fields
        ],
    }
    groups = {"composite": composite} | ({} if within is None else {"aggs": within})
    body = {"size": 0, "track_total_hits": False, "query": query, "aggs": {"groups": groups}}
    while True:
        answer = await connection.search(index, body, routing=routing, patience=WRITING)
        found = answer.get("aggregations", {}).get("groups", {"buckets": []})
        yield found["buckets"]
        if len(found["buckets"]) < size:
            return
        composite["after"] = found["after_key"]
