"""Adds fields to documents that an earlier release stored without them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.client.scanning import scan

_DOCUMENTS_A_PAGE: Final = 1_000
_LOGGED_EVERY: Final = 100_000

_log = logging.getLogger(__name__)


async def add_fields(
    connection: Connection,
    index: str,
    missing: str,
    order: Sequence[Mapping[str, str]],
    fields_of: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    renew: Callable[[], Awaitable[None]],
    *,
    among: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Add the result of `fields_of` to each document of `index` without the field `missing`.

    `fields_of` gets the content of a document. `order` sorts the documents and ends in a unique
    field; `among` are clauses that all of them match. A document that changes meanwhile is left
    out. If the call is interrupted, a repeated call handles the remaining ones. `renew` is called
    after each page.
    """
    await connection.refresh(index)
    body = {
        "size": _DOCUMENTS_A_PAGE,
        "query": {"bool": {"filter": [*among], "must_not": [{"exists": {"field": missing}}]}},
        "sort": [*order],
        "seq_no_primary_term": True,
    }
    done = reported = 0
    async for hits in scan(connection, index, body):
        operations = [
            Operation(
                "index",
                hit["_index"],
                hit["_id"],
                hit.get("_routing"),
                {**hit["_source"], **fields_of(hit["_source"])},
                Version.of(hit).parameters,
            )
            for hit in hits
        ]
        # Retention or a rebuild may delete an index meanwhile.
        await bulk.send(connection, operations, visible=False, may_be_gone=True)
        await renew()
        done += len(hits)
        if done - reported >= _LOGGED_EVERY:
            reported = done
            _log.warning("added the field %s to %d documents of %s", missing, done, index)
    await connection.refresh(index)
