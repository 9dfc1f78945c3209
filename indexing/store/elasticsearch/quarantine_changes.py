"""The log of changes of quarantines: documents in the control index.

An expired quarantine gets its document in the log only once a later write ends it. Until then,
lists derive the expiry from the quarantine. Retention ends old ones without a document.

A change is first stored in the slot of its quarantine, together with the change itself. Then its
document is written, and the slot is cleared. If the process is killed in between, the next write of
the slot writes the document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    QuarantineChange,
    QuarantineChangeKey,
)
from indexing.names import RepositoryName
from indexing.quarantine.changes import record_expiry
from indexing.store.elasticsearch.client import bulk, paging
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.deleting import delete_all
from indexing.store.elasticsearch.client.documents import Document, Hit, Version
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.quarantine_notices import notify_quarantined
from indexing.store.elasticsearch.quarantine_slots import (
    QuarantineSlot,
    change_of,
    document_of,
    slot_of,
    slot_of_hit,
    writing,
)
from indexing.timestamps import to_microseconds

KIND: Final = "quarantine_change"

# The sort key of changes, and that of expiries, in the fields of their documents.
_ORDER: Final = ("created_at", "key_id")
_EXPIRY_ORDER: Final = ("expires_at", "quarantine_id")

_ROWS_A_PAGE: Final = 5_000


async def complete(cluster: Cluster, slots: Sequence[QuarantineSlot]) -> None:
    """Write the documents of all changes that are stored only in these slots, and clear the slots.

    A slot that another process has changed in the meantime is not cleared; that process writes the
    documents too.
    """
    pending = [slot for slot in slots if slot.unlisted]
    if not pending:
        return
    changes = [
        _operation_of(cluster, slot.routing, each) for slot in pending for each in slot.unlisted
    ]
    await bulk.send(cluster.connection, changes, visible=True)
    notified = await notify_quarantined(cluster, pending)
    stored = await cluster.connection.get_many(
        [Place(cluster.layout.quarantines, slot.id, slot.routing) for slot in pending],
        timeouts=WRITING,
    )
    current = [slot_of(document) for document in stored if document is not None]
    listed = {each.key.id for slot in pending for each in slot.unlisted}
    cleared = [
        replace(
            slot,
            unlisted=tuple(each for each in slot.unlisted if each.key.id not in listed),
            notified_at=notified.get(slot.id, slot.notified_at),
        )
        for slot in current
        if slot.unlisted
    ]
    # Visible, because the next refresh finds slots by a search, and its write checks versions.
    await bulk.send(cluster.connection, [writing(cluster, slot) for slot in cleared], visible=True)


async def list_changes(
    cluster: Cluster,
    repository: RepositoryName,
    now: datetime,
    anchor: Anchor[QuarantineChangeKey],
    limit: int,
) -> Page[QuarantineChange]:
    """Merge a page of the log with a page of expiries that are not in the log yet."""
    routing = routing_of(repository)
    of_repository = {"term": {"repository_id": routing}}
    recorded = paging.List(
        index=cluster.layout.control,
        routing=routing,
        query={"bool": {"filter": [of_repository, {"term": {"kind": KIND}}]}},
        order=_ORDER,
        ascending=False,
        fields=("*",),
    )
    expired = paging.List(
        index=cluster.layout.quarantines,
        routing=routing,
        query={
            "bool": {
                "filter": [
                    of_repository,
                    {"exists": {"field": "quarantine_id"}},
                    {"range": {"expires_at": {"lte": to_microseconds(now)}}},
                ]
            }
        },
        order=_EXPIRY_ORDER,
        ascending=False,
        fields=("*",),
    )
    key = anchor.key
    beside = None if key is None else (to_microseconds(key.at), str(key.id))
    first = await _read(cluster, recorded, _change_of, beside, anchor, limit)
    second = await _read(cluster, expired, _expiry_of, beside, anchor, limit)
    return _merge(first, second, limit, backward=anchor.backward)


async def prune_changes(cluster: Cluster, before: int) -> None:
    """Delete the changes before that moment, in microseconds."""
    old = {"range": {"created_at": {"lt": before}}}
    query = {"bool": {"filter": [{"term": {"kind": KIND}}, old]}}
    await delete_all(cluster.connection, cluster.layout.control, query, _ORDER)


async def prune_expiries(cluster: Cluster, before: int, now: datetime) -> None:
    """End the quarantines that expired before that moment, in microseconds.

    Their expiries are not recorded, because `prune_changes` would delete them.
    """
    # Another process may write a slot after it was read; then it is read again.
    while not await _try_prune_expiries(cluster, before, now):
        await cluster.connection.refresh(cluster.layout.quarantines)


async def _try_prune_expiries(cluster: Cluster, before: int, now: datetime) -> bool:
    """End these quarantines; return whether all of them are ended."""
    filters: list[dict[str, Any]] = [
        {"exists": {"field": "quarantine_id"}},
        {"range": {"expires_at": {"lt": before}}},
        {"range": {"expires_at": {"lte": to_microseconds(now)}}},
    ]
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"scope": "asc"}],
        "seq_no_primary_term": True,
    }
    are_ended = True
    async for hits in scan(cluster.connection, cluster.layout.quarantines, body):
        slots = [slot_of_hit(hit) for hit in hits]
        ended = [
            slot.ended_with(slot.record.expires_at) for slot in slots if slot.record is not None
        ]
        operations = [writing(cluster, slot) for slot in ended]
        outcomes = await bulk.send(cluster.connection, operations, visible=True)
        are_ended = are_ended and not any(outcome.conflicts for outcome in outcomes)
    return are_ended


async def _read(
    cluster: Cluster,
    rows: paging.List,
    make_row: Callable[[Hit], QuarantineChange],
    beside: tuple[int, str] | None,
    anchor: Anchor[QuarantineChangeKey],
    limit: int,
) -> Page[QuarantineChange]:
    itself = None
    if beside is not None:
        itself = paging.Beside(
            beside,
            {
                "bool": {
                    "filter": [
                        {"term": {field: value}}
                        for field, value in zip(rows.order, beside, strict=True)
                    ]
                }
            },
        )
    page, _ = await paging.read_page(
        cluster.connection,
        rows,
        make_row,
        beside=itself,
        backward=anchor.backward,
        limit=limit,
    )
    return page


def _merge(
    first: Page[QuarantineChange], second: Page[QuarantineChange], limit: int, *, backward: bool
) -> Page[QuarantineChange]:
    """Merge two pages of one list, both read from the same key in the same direction."""
    rows = sorted((*first.rows, *second.rows), key=lambda change: change.key, reverse=True)
    cut = len(rows) > limit
    rows = rows[-limit:] if backward else rows[:limit]
    return Page(
        tuple(rows),
        has_previous=first.has_previous or second.has_previous or (cut and backward),
        has_next=first.has_next or second.has_next or (cut and not backward),
    )


def _operation_of(cluster: Cluster, routing: str, change: QuarantineChange) -> Operation:
    return Operation(
        "index",
        cluster.layout.control,
        f"{KIND}-{change.key.id.hex}",
        routing,
        {
            "kind": KIND,
            "repository_id": routing,
            "key_id": str(change.key.id),
            "created_at": to_microseconds(change.key.at),
            **document_of(change),
        },
    )


def _change_of(hit: Hit) -> QuarantineChange:
    return change_of(hit["_source"])


def _expiry_of(hit: Hit) -> QuarantineChange:
    quarantine = slot_of(Document(hit["_id"], hit["_source"], Version(0, 0))).quarantine
    if quarantine is None:
        raise LookupError("the slot holds no quarantine")
    return record_expiry(quarantine)
