"""Adds fields to events that an earlier release stored without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from indexing.events.json_text import decode_stored
from indexing.models.events import MAX_TRIGGER_LENGTH
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.added_fields import add_fields
from indexing.store.elasticsearch.indices.layout import Layout


async def fill_outcomes(
    connection: Connection, layout: Layout, renew: Callable[[], Awaitable[None]]
) -> None:
    """Add trigger and outcome to each event without an outcome."""
    order = [{"received_at": "desc"}, {"id": "desc"}, {"repository_id": "desc"}]
    await add_fields(connection, layout.events, "outcome", order, _fields_of, renew)


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
