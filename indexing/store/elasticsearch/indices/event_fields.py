"""Adds fields to events that an earlier release stored without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from indexing.events.json_text import decode_stored
from indexing.models.events import MAX_TRIGGER_LENGTH
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection, Version
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.indices.layout import Layout

_EVENTS_A_PAGE: Final = 1_000


async def fill_outcomes(
    connection: Connection, layout: Layout, renew: Callable[[], Awaitable[None]]
) -> None:
    """Add trigger and outcome to each event without an outcome.

    If the call is interrupted, a repeated call handles the remaining events. `renew` is called
    after each page.
    """
    await connection.refresh(layout.events)
    body = {
        "size": _EVENTS_A_PAGE,
        "query": {"bool": {"must_not": [{"exists": {"field": "outcome"}}]}},
        "sort": [{"received_at": "desc"}, {"id": "desc"}, {"repository_id": "desc"}],
        "seq_no_primary_term": True,
    }
    async for hits in scan(connection, layout.events, body):
        operations = [
            Operation(
                "index",
                hit["_index"],
                hit["_id"],
                hit["_routing"],
                {**hit["_source"], **_fields_of(hit["_source"])},
                Version.of(hit).parameters,
            )
            for hit in hits
        ]
        # Retention may delete a slice meanwhile.
        await bulk.send(connection, operations, visible=False, may_be_gone=True)
        await renew()
    await connection.refresh(layout.events)


def _fields_of(source: Mapping[str, Any]) -> dict[str, Any]:
    # Imported here, because the import builds the schemas of all events, and an upgrade is rare.
    from indexing.events.catalogue import CATALOGUE
    from indexing.events.outcomes import NEUTRAL, decide_outcome

    event = decode_stored(source["body"].encode())
    declared = CATALOGUE.get(source["type"])
    outcome = NEUTRAL if declared is None else decide_outcome(declared.outcome, event["metadata"])
    trigger = event["trigger"]
    return {
        "trigger": trigger if len(trigger) <= MAX_TRIGGER_LENGTH else None,
        "outcome": outcome.value,
    }
