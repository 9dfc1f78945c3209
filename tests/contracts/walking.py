"""Walks a whole list page by page, as a client does with the links."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, TypeVar

from indexing.models.paging import Anchor, Page

K = TypeVar("K")
R = TypeVar("R")

ReadPage = Callable[[Anchor[K]], Awaitable[Page[R]]]
BetweenPages = Callable[[], Awaitable[None]]

OWN_KEY: Callable[[Any], Any] = attrgetter("key")

# How often a walk writes: enough to be on every side of a page, and each write costs an index more
# than a page does. A longer walk would not end sooner than the list that it lengthens.
WRITES = 8


async def _nothing() -> None:
    return None


def a_few_times(write: BetweenPages) -> BetweenPages:
    """Write between the first pages of one walk."""
    left = WRITES

    async def write_if_left() -> None:
        nonlocal left
        if left:
            left -= 1
            await write()

    return write_if_left


async def walk_both_ways(read: ReadPage[K, R], *, key_of: Callable[[R], K] = OWN_KEY) -> list[R]:
    """Return all rows, which walks in both directions have to find."""
    found = await walk_forwards(read, key_of=key_of)
    assert await walk_backwards(read, key_of=key_of) == found
    return found


async def walk_forwards(
    read: ReadPage[K, R], between: BetweenPages = _nothing, *, key_of: Callable[[R], K] = OWN_KEY
) -> list[R]:
    """Return all rows, following `next` from the first page; `between` runs between two pages."""
    found: list[R] = []
    page = await read(Anchor())
    while True:
        found += page.rows
        if not page.has_next:
            return found
        await between()
        page = await read(Anchor(key_of(page.rows[-1])))
        assert page.rows, "a next page is never empty"
        assert page.has_previous


async def walk_backwards(
    read: ReadPage[K, R], between: BetweenPages = _nothing, *, key_of: Callable[[R], K] = OWN_KEY
) -> list[R]:
    """Return all rows in the order of the list, following `prev` from the last page."""
    found: list[R] = []
    page = await read(Anchor(backward=True))
    while True:
        found[:0] = page.rows
        if not page.has_previous:
            return found
        await between()
        page = await read(Anchor(key_of(page.rows[0]), backward=True))
        assert page.rows, "a previous page is never empty"
        assert page.has_next
