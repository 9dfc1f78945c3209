"""Compares the cost of a list's 500th page and its first, measured in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from benchmarks.scale.identities import LARGEST
from benchmarks.scale.searches import Compared
from indexing.models.events import EventKey, EventQuery, EventRow
from indexing.models.paging import Anchor, Page
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.store.interface import Reader

_ROWS: Final = 10
_PAGE: Final = 500
_ROUNDS: Final = 200
_FROM: Final = datetime(2026, 10, 1, tzinfo=UTC)

R = TypeVar("R")
K = TypeVar("K")


async def compare_pages_of_events(reader: Reader) -> Compared:
    """Compare page 500 of the event log with page 1."""
    query = EventQuery(LARGEST, _FROM, _FROM + timedelta(days=31))
    read: Callable[[Anchor[EventKey], int], Awaitable[Page[EventRow]]]
    read = partial(reader.list_events, query)
    return await _compare(read, lambda row: row.key)


async def compare_pages_of_tests(reader: Reader) -> Compared:
    """Compare page 500 of the search for all tests of the largest repository with page 1."""
    read: Callable[[Anchor[IdentityKey], int], Awaitable[Page[TestIdentity]]]
    read = partial(reader.search_tests, TestQuery(LARGEST, ("*",)))
    return await _compare(read, lambda row: row.key)


async def _compare(
    read: Callable[[Anchor[K], int], Awaitable[Page[R]]], key_of: Callable[[R], K]
) -> Compared:
    first: Anchor[K] = Anchor()
    deep = first
    for _ in range(_PAGE - 1):
        deep = Anchor(key_of((await read(deep, _ROWS)).rows[-1]))
    took: dict[int, list[float]] = {1: [], _PAGE: []}
    for _ in range(_ROUNDS):
        for number, anchor in ((1, first), (_PAGE, deep)):
            began = time.perf_counter()
            page = await read(anchor, _ROWS)
            took[number].append(time.perf_counter() - began)
            if len(page.rows) != _ROWS:
                raise RuntimeError(f"page {number} has {len(page.rows)} rows")
    return Compared(statistics.median(took[_PAGE]), statistics.median(took[1]))
