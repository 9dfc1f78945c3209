"""Reads all results of a query, page by page.

By default with the long timeout, for maintenance and refreshes. Requests of users pass their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from indexing.store.elasticsearch.client.connection import WRITING, Connection, Timeouts
from indexing.store.elasticsearch.client.documents import Hit

# The name of the aggregation in the searches of `groups_body`.
GROUPS: Final = "groups"


async def scan(
    connection: Connection,
    index: str,
    body: Mapping[str, Any],
    *,
    routing: str | None = None,
    first: Any = None,
    timeouts: Timeouts | None = WRITING,
    take_turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> AsyncGenerator[Sequence[Hit], None]:
    """Yield the hits in pages of the body's `size`; its `sort` must end in a unique field.

    Yields at least one page, which may be empty. `first` is the response with the first page, if
    the caller has it already. `timeouts` apply to each page; `None` means the short ones of reads
    that a user waits for. Each page but the first is read within a turn: who needs only one waits
    for nobody.
    """
    asked = {"track_total_hits": False, **body}
    turn: AbstractAsyncContextManager[None] = nullcontext()
    while True:
        async with turn:
            answer = first or await connection.search(
                index, asked, routing=routing, timeouts=timeouts
            )
        first = None
        hits = answer["hits"]["hits"]
        yield hits
        if len(hits) < body["size"]:
            return
        asked["search_after"] = hits[-1]["sort"]
        turn = take_turn()


def groups_body(
    query: Mapping[str, Any],
    fields: Sequence[str | Mapping[str, Any]],
    *,
    size: int,
    within: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the search for one page of all combinations of values of these fields."""
    composite: dict[str, Any] = {
        "size": size,
        "sources": [
            {field: {"terms": {"field": field}}} if isinstance(field, str) else field
            for field in fields
        ],
    }
    if after is not None:
        composite["after"] = after
    groups = {"composite": composite} | ({} if within is None else {"aggs": within})
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {GROUPS: groups}}


async def scan_groups(
    connection: Connection,
    index: str,
    query: Mapping[str, Any],
    fields: Sequence[str | Mapping[str, Any]],
    *,
    size: int,
    routing: str | None = None,
    within: Mapping[str, Any] | None = None,
    first: Any = None,
    timeouts: Timeouts | None = WRITING,
) -> AsyncGenerator[Sequence[Mapping[str, Any]], None]:
    """Yield a bucket for each combination of values of these fields, in pages of `size`.

    Instead of a field name, `fields` may contain another source of a composite aggregation, such as
    a histogram. `within` are the sub-aggregations of each bucket. If the index does not exist,
    there are no buckets. `first` is the response with the first page, if the caller has it already.
    `timeouts` apply to each page; `None` means the short ones of reads that a user waits for.
    """
    after: Mapping[str, Any] | None = None
    while True:
        body = groups_body(query, fields, size=size, within=within, after=after)
        answer = first or await connection.search(index, body, routing=routing, timeouts=timeouts)
        first = None
        found = answer.get("aggregations", {}).get(GROUPS, {"buckets": []})
        yield found["buckets"]
        if len(found["buckets"]) < size:
            return
        after = found["after_key"]
