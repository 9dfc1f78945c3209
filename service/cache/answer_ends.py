"""Until when an answer holds although nothing is written.

Quarantines expire, and events move out of a range that ends now.
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

# The start and the end of a range, where the request has them.
Bounds = tuple[datetime | None, datetime | None]

_MOVING_EVENTS: Final = timedelta(seconds=EVENTS_LIFETIME)
_UNSEEN_EVENTS: Final = timedelta(seconds=UNSEEN_EVENTS_LIFETIME)


def find_end_of_events(
    query: EventQuery, bounds: Bounds, page: Page[EventRow], now: datetime, *, sees_all: bool
) -> datetime:
    """The end of a first page of events; `sees_all` if no write of an event goes unnoticed."""
    start, end = bounds
    until = now + (_MOVING_EVENTS if sees_all else _UNSEEN_EVENTS)
    if start is None and end is None and page.rows and not page.has_next:
        oldest = page.rows[-1].key.received_at
        until = min(until, oldest + (query.received_to - query.received_from))
    return until


async def find_end_of_quarantines(
    reader: Reader, query: QuarantineQuery, page: Page[Quarantine]
) -> datetime | None:
    """The end of a page of quarantines: when the first one of it, or beside it, expires."""
    return _soonest_end((*page.rows, *await _read_neighbours(reader, query, page)))


async def _read_neighbours(
    reader: Reader, query: QuarantineQuery, page: Page[Quarantine]
) -> tuple[Quarantine, ...]:
    """The rows beside a page: with the end of one, the page on that side may be gone."""
    beside: tuple[Quarantine, ...] = ()
    if page.rows and page.has_previous:
        before = Anchor(page.rows[0].key, backward=True)
        beside += (await reader.list_quarantines(query, before, 1)).rows
    if page.rows and page.has_next:
        after = Anchor(page.rows[-1].key)
        beside += (await reader.list_quarantines(query, after, 1)).rows
    return beside


def _soonest_end(rows: Iterable[Quarantine]) -> datetime | None:
    return min((row.expires_at for row in rows if row.expires_at is not None), default=None)
