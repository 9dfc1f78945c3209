"""Documents of the event log, in time slices: written once, read page by page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from indexing.errors import StaleKeyError
from indexing.identifiers import derive_event_row_id
from indexing.models.events import EventKey, EventQuery, EventRow, StoredEvent
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING, Document
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import TIME, make_query, slices_of
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.indices.slices import slice_of
from indexing.store.elasticsearch.repositories import read_known
from indexing.store.interface import EventOutcome
from indexing.timestamps import to_microseconds

_log = logging.getLogger(__name__)

_ORDER: Final = (TIME, "id")


async def write_events(cluster: Cluster, events: Sequence[StoredEvent]) -> list[EventOutcome]:
    names = list({event.repository.key: event.repository for event in events}.values())
    retention = (await read_known(cluster, names)).retention
    operations = [_operation_of(cluster, event, retention.epoch) for event in events]
    sent = await cluster.slices.send(operations, visible=True, may_refuse=True)
    taken = [number for number, outcome in enumerate(sent) if outcome.conflicts]
    stored = await cluster.connection.get_many(
        [(operations[n].index, operations[n].id, operations[n].routing) for n in taken],
        patience=WRITING,
    )
    found = dict(zip(taken, stored, strict=True))
    refused = [outcome for outcome in sent if outcome.refused]
    if refused:
        _log.warning("%d events are refused, the first one: %s", len(refused), refused[0].reason)
    outcomes: list[EventOutcome] = []
    for number, event in enumerate(events):
        if sent[number].done:
            outcomes.append(EventOutcome.WRITTEN)
        elif number not in found:
            outcomes.append(EventOutcome.REFUSED)
        else:
            outcomes.append(
                await _compare(cluster, operations[number], event, found[number], retention)
            )
    return outcomes


async def _compare(
    cluster: Cluster,
    operation: Operation,
    event: StoredEvent,
    stored: Document | None,
    retention: Retention,
) -> EventOutcome:
    """Return the outcome for an event whose id exists; write it if retention dropped that one."""
    if stored is not None and not retention.is_dropped(stored.source, TIME):
        same = stored.source["body"] == event.body.decode()
        return EventOutcome.UNCHANGED if same else EventOutcome.CONFLICT
    # Retention has dropped the stored event: readers do not see it, so this one is new.
    again = Operation(
        "index" if stored else "create",
        operation.index,
        operation.id,
        operation.routing,
        operation.source,
        stored.version.parameters if stored else None,
    )
    (done,) = await cluster.slices.send([again], visible=True, may_refuse=True)
    return EventOutcome.WRITTEN if done.done else EventOutcome.CONFLICT


def _operation_of(cluster: Cluster, event: StoredEvent, epoch: int) -> Operation:
    routing = routing_of(event.repository)
    return Operation(
        "create",
        cluster.layout.events_of(slice_of(event.key.received_at)),
        _document_id(event.repository, event.key),
        routing,
        {
            "repository_id": routing,
            TIME: to_microseconds(event.key.received_at),
            "id": event.key.id,
            "type": event.type,
            "pull_request": event.pull_request,
            "base_ref": event.base_ref,
            "trigger": event.searchable_trigger,
            "outcome": event.outcome.value,
            "epoch": epoch,
            "body": event.body.decode(),
        },
    )


def _document_id(repository: RepositoryName, key: EventKey) -> str:
    return derive_event_row_id(repository, to_microseconds(key.received_at), key.id).hex()


async def list_events(
    cluster: Cluster, query: EventQuery, anchor: Anchor[EventKey], limit: int
) -> Page[EventRow]:
    if query.received_from >= query.received_to:
        return Page((), has_previous=False, has_next=False)
    retention = await cluster.control.read_retention()
    key = anchor.key
    beside = None
    if key is not None:
        values = (to_microseconds(key.received_at), key.id)
        itself = {"ids": {"values": [_document_id(query.repository, key)]}}
        beside = paging.Beside(values, itself)
    page, there = await paging.read_page(
        cluster.connection,
        paging.List(
            index=slices_of(cluster, query),
            routing=routing_of(query.repository),
            query=make_query(query, retention),
            order=_ORDER,
            ascending=False,
            fields=("body",),
        ),
        _row_of,
        beside=beside,
        backward=anchor.backward,
        limit=limit,
    )
    if beside is not None and not there:
        # The cached marks may be older than the pruning that removed the row.
        retention = (await cluster.control.read()).retention
    if beside is not None and not there and retention.reaches(beside.values[0]):
        raise StaleKeyError("retention dropped the event that this page was to continue from")
    return page


def _row_of(hit: paging.Hit) -> EventRow:
    microseconds, event_id = hit["sort"]
    return EventRow(microseconds, event_id, hit["_source"]["body"].encode())
