"""Reads the event log page by page; its documents are in time slices."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from indexing.errors import StaleKeyError
from indexing.identifiers import derive_event_row_id
from indexing.models.events import EventKey, EventQuery, EventRow
from indexing.models.paging import Anchor, Page
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.event_query import RECEIVED_AT, every_of, make_query, slices_of
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.large_event_pages import read_fitting
from indexing.timestamps import MICROSECOND, to_microseconds

_ORDER: Final = (RECEIVED_AT, "id")

# Slices are sorted newest first, so paging backward, from the oldest event on, reads the whole time
# range: 50,000 events take 6 ms. An extra request takes only 1 ms. So the first request for a long
# range covers the oldest 1/256 of it, which often fills the page.
_FIRST_PART: Final = 256
_LONG_RANGE: Final = timedelta(days=1)

# A page from the newest event on is usually in the newest slice. A node answers a search of one
# shard in one step, and of several in three: it takes half of the time to leave the others out. A
# month that has just begun may have too few events.
_FEW_DAYS: Final = timedelta(days=7)


def document_id(repository: RepositoryName, key: EventKey) -> str:
    """Return the document id of an event, by its repository, time and id."""
    return derive_event_row_id(repository, to_microseconds(key.received_at), key.id).hex()


async def list_events(
    cluster: Cluster, query: EventQuery, anchor: Anchor[EventKey], limit: int
) -> Page[EventRow]:
    read = partial(_list_events, cluster, query)
    return await read_fitting(cluster, routing_of(query.repository), read, anchor, limit)


async def _list_events(
    cluster: Cluster, query: EventQuery, anchor: Anchor[EventKey], limit: int, *, alone: bool
) -> Page[EventRow]:
    # Whether the page is read from the order of the index, without skipping any event.
    is_cheap = not anchor.backward and query == every_of(query)
    combined = is_cheap and not alone
    part = None
    if anchor.backward:
        part = _oldest_part(query, anchor)
    elif is_cheap:
        part = newest_part(cluster.layout, query, anchor)
    if part is not None:
        page = await _read_page(cluster, part, anchor, limit, combined=combined)
        if _is_complete(page, anchor):
            return page
    return await _read_page(cluster, query, anchor, limit, combined=combined)


def _oldest_part(query: EventQuery, anchor: Anchor[EventKey]) -> EventQuery | None:
    """Return the part of a long range that the last page is probably in."""
    oldest = query.received_from if anchor.key is None else anchor.key.received_at
    length = query.received_to - oldest
    if length <= _LONG_RANGE:
        return None
    return replace(query, received_to=oldest + length / _FIRST_PART)


def newest_part(layout: Layout, query: EventQuery, anchor: Anchor[EventKey]) -> EventQuery | None:
    """Return the part of a long range that a page of all its events is probably in.

    It begins with a slice, and ends with the range or right after the event of the anchor. `None`
    if it has the slices of the whole range.
    """
    end = query.received_to
    if anchor.key is not None and anchor.key.received_at < end:
        # The page is read beside this event, which must be in the part.
        end = anchor.key.received_at + MICROSECOND
    last = min(end, datetime.now(UTC))
    if last - query.received_from <= _FEW_DAYS:
        return None
    start = (last - _FEW_DAYS).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if start <= query.received_from:
        return None
    part = EventQuery(query.repository, start, end)
    # A part that ends far in the future has too many slices to name.
    return None if slices_of(layout, part) == slices_of(layout, query) else part


def _is_complete(page: Page[EventRow], anchor: Anchor[EventKey]) -> bool:
    """Return whether the page of a part is that of the whole range."""
    if anchor.backward:
        return page.has_previous
    # Without the row of the anchor, newer events have to be looked for outside of the part.
    return page.has_next and (anchor.key is None or page.has_previous)


async def _read_page(
    cluster: Cluster, query: EventQuery, anchor: Anchor[EventKey], limit: int, *, combined: bool
) -> Page[EventRow]:
    if query.received_from >= query.received_to:
        return Page((), has_previous=False, has_next=False)
    retention = await cluster.control.read_retention()
    key = anchor.key
    beside = None
    if key is not None:
        values = (to_microseconds(key.received_at), key.id)
        itself = {"ids": {"values": [document_id(query.repository, key)]}}
        beside = paging.Beside(values, itself)
    index = slices_of(cluster.layout, query)
    page, there = await paging.read_page(
        cluster.connection,
        paging.List(
            index=index,
            routing=routing_of(query.repository),
            query=make_query(query, retention),
            order=_ORDER,
            ascending=False,
        ),
        _row_of,
        beside=beside,
        backward=anchor.backward,
        limit=limit,
        combined=(cluster.combined_reads, index) if combined else None,
    )
    if beside is not None and not there:
        # The cached retention marks may be older than the retention run that dropped the row.
        retention = (await cluster.control.read()).retention
    if beside is not None and not there and retention.reaches(beside.values[0]):
        raise StaleKeyError("retention dropped the event that this page was to continue from")
    return page


def _row_of(hit: Hit) -> EventRow:
    microseconds, event_id = hit["sort"]
    return EventRow(microseconds, event_id, hit["_source"]["body"].encode())
