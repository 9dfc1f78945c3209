"""Computes when a cached answer expires because time passes.

Quarantines expire, and events leave a range that ends now.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from indexing.models.events import EventQuery, EventRow
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import Quarantine, QuarantineQuery
from indexing.store.interface import Reader
from service.cache.keys import EVENTS_LIFETIME, UNSEEN_EVENTS_LIFETIME

# The start and the end of a range; `None` for a bound that the request leaves out.
Bounds = tuple[datetime | None, datetime | None]

_MOVING_EVENTS: Final = timedelta(seconds=EVENTS_LIFETIME)
_UNSEEN_EVENTS: Final = timedelta(seconds=UNSEEN_EVENTS_LIFETIME)


def find_expiry_of_events(
    query: EventQuery, bounds: Bounds, page: Page[EventRow], now: datetime, *, sees_all: bool
) -> datetime:
    """Return when a first page of events expires; `sees_all` if the cache notices all writes."""
    start, end = bounds
    until = now + (_MOVING_EVENTS if sees_all else _UNSEEN_EVENTS)
    if start is None and end is None and page.rows and not page.has_next:
        oldest = page.rows[-1].key.received_at
        until = min(until, oldest + (query.received_to - query.received_from))
    return until


async def find_expiry_of_quarantines(
    reader: Reader, query: QuarantineQuery, page: Page[Quarantine]
) -> datetime | None:
    """Return when the first quarantine of the page, or right beside it, expires."""
    return _soonest_expiry((*page.rows, *await _read_neighbours(reader, query, page)))


async def _read_neighbours(
    reader: Reader, query: QuarantineQuery, page: Page[Quarantine]
) -> tuple[Quarantine, ...]:
    """Return the rows right beside a page: when one expires, the page on that side may be gone."""
    beside: tuple[Quarantine, ...] = ()
    if page.rows and page.has_previous:
        before = Anchor(page.rows[0].key, backward=True)
        beside += (await reader.list_quarantines(query, before, 1)).rows
    if page.rows and page.has_next:
        after = Anchor(page.rows[-1].key)
        beside += (await reader.list_quarantines(query, after, 1)).rows
    return beside


def _soonest_expiry(rows: Iterable[Quarantine]) -> datetime | None:
    return min((row.expires_at for row in rows if row.expires_at is not None), default=None)
