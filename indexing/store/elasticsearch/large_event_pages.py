"""Reads pages of large events in portions.

An event may have a megabyte. A page of a hundred would then take 100 MB of memory in the node and
in this process, and come too late. Few repositories have such events. So a read asks for the whole
page first, and is given up once its answer is too large. After that, reads of that repository begin
with a few events.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Final, Protocol

from indexing.errors import StaleKeyError, StoreUnavailableError
from indexing.models.events import MOST_PAGE_BYTES, EventKey, EventRow, fit_page
from indexing.models.paging import Anchor, Page
from indexing.store.elasticsearch.client.failures import LargeAnswerError
from indexing.store.elasticsearch.client.http_connection import max_body_bytes
from indexing.store.elasticsearch.cluster import Cluster

# The largest events fill a page with these.
_FEW_EVENTS: Final = 8
# Twice the bytes of these events, because a response quotes them, and one that shows whether there
# are more.
_MOST_RESPONSE_BYTES: Final = 3 * MOST_PAGE_BYTES
_REMEMBERED_SECONDS: Final = 3600.0
# An answer that did not come in time may have been too large.
_SUSPECTED_SECONDS: Final = 60.0


class Read(Protocol):
    """Reads a page of up to `limit` events beside the anchor.

    With `alone`, no other page is in the same response.
    """

    def __call__(
        self, anchor: Anchor[EventKey], limit: int, *, alone: bool
    ) -> Awaitable[Page[EventRow]]: ...


async def read_fitting(
    cluster: Cluster, routing: str, read: Read, anchor: Anchor[EventKey], limit: int
) -> Page[EventRow]:
    """Return the page of up to `limit` events that fits into an answer of the API."""
    if cluster.large_events.find(routing) is not None:
        return await _read_in_portions(read, anchor, limit)
    try:
        page = await _read(read, anchor, limit, alone=False)
        return fit_page(page, backward=anchor.backward)
    except LargeAnswerError:
        _remember(cluster, routing, _REMEMBERED_SECONDS)
    except StoreUnavailableError:
        if limit > _FEW_EVENTS:
            _remember(cluster, routing, _SUSPECTED_SECONDS)
        raise
    return await _read_in_portions(read, anchor, limit)


def _remember(cluster: Cluster, routing: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    cluster.large_events.keep(routing, value=True, size=len(routing), deadline=deadline)


async def _read(
    read: Read, anchor: Anchor[EventKey], limit: int, *, alone: bool = True
) -> Page[EventRow]:
    """Read a page.

    Raises:
        LargeAnswerError: the response would be too large.
    """
    former = max_body_bytes.set(_MOST_RESPONSE_BYTES)
    try:
        return await read(anchor, limit, alone=alone)
    finally:
        max_body_bytes.reset(former)


async def _read_in_portions(read: Read, anchor: Anchor[EventKey], limit: int) -> Page[EventRow]:
    page = await _read(read, anchor, min(limit, _FEW_EVENTS))
    while len(page.rows) < limit and (page.has_previous if anchor.backward else page.has_next):
        size = sum(len(row.body) for row in page.rows)
        fitting = (MOST_PAGE_BYTES - size) * len(page.rows) // size
        if fitting <= 0:
            break
        wanted = min(limit - len(page.rows), fitting)
        beside = Anchor(page.rows[0 if anchor.backward else -1].key, anchor.backward)
        try:
            more = await _read(read, beside, wanted)
        except LargeAnswerError:
            more = await _read(read, beside, min(wanted, _FEW_EVENTS))
        except StaleKeyError:
            # Retention has just reached these events: the page ends here.
            break
        first, last = (more, page) if anchor.backward else (page, more)
        page = Page((*first.rows, *last.rows), first.has_previous, last.has_next)
    return fit_page(page, backward=anchor.backward)
