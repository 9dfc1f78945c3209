"""Keyset pagination over a search; never by an offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from indexing.models.paging import Page
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.places import Search
from indexing.timestamps import to_microseconds

R = TypeVar("R")

Hit = Mapping[str, Any]
# Returns the hits that belong to the list.
Keep = Callable[[Sequence[Hit]], Awaitable[Sequence[Hit]]]

# The rows of one search. The cluster would return up to 10,000, but their names may take megabytes.
_MOST_ROWS: Final = 2_000
# The number of rows to read first if `keep` drops some of them; each further read takes four times
# as many.
_FIRST_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class List:
    """One sorted list in an index: its query, its sort order and the fields to read.

    `order` is the sort key and ends in a field that is unique in the list. All fields sort in the
    same direction. Rows are built from `fields` of the documents. With `column`, rows are built
    from the values of `order` and that column, which needs no access to the documents. `missing`
    has the values of documents without these fields.
    """

    index: str
    routing: str
    query: Mapping[str, Any]
    order: tuple[str, ...]
    ascending: bool
    fields: tuple[str, ...]
    column: str | None = None
    missing: Mapping[str, float] = field(default_factory=dict)

    def body(self, *, backward: bool, after: Sequence[Any] | None, size: int) -> dict[str, Any]:
        """Return the search for `size` rows after the sort key `after`, or from an end."""
        direction = "asc" if self.ascending != backward else "desc"
        body: dict[str, Any] = {
            "size": size,
            "query": self.query,
            "sort": [
                {name: {"order": direction, "missing": self.missing[name]}}
                if name in self.missing
                else {name: direction}
                for name in self.order
            ],
            "track_total_hits": False,
        }
        if self.column is None:
            body["_source"] = list(self.fields)
        else:
            body |= {"stored_fields": "_none_", "docvalue_fields": [self.column]}
        if after is not None:
            body["search_after"] = list(after)
        return body


@dataclass(frozen=True, slots=True)
class Beside:
    """The anchor row of a page: its sort key, and the query that finds exactly this row."""

    values: tuple[Any, ...]
    itself: Mapping[str, Any]


def beside_moment(field: str, key: tuple[datetime, bytes] | None) -> Beside | None:
    """Return the anchor row of a list that is sorted by this time field and the document id."""
    if key is None:
        return None
    moment, document = to_microseconds(key[0]), key[1].hex()
    # The time is part of the query, because the same document with another time is another row.
    itself = [{"ids": {"values": [document]}}, {"term": {field: moment}}]
    return Beside((moment, document), {"bool": {"filter": itself}})


async def read_page(
    connection: Connection,
    rows: List,
    make_row: Callable[[Hit], R],
    *,
    beside: Beside | None,
    backward: bool,
    limit: int | None,
    keep: Keep | None = None,
) -> tuple[Page[R], bool]:
    """Read one page; also return whether the anchor row is still in the list.

    One extra row shows whether the list continues. `keep` drops rows that the query cannot filter;
    reading then continues until the page is full or the list ends.
    """
    wanted = None if limit is None else limit + 1
    after = None if beside is None else beside.values
    found: list[R] = []
    there = False
    first = beside
    candidates = _FIRST_ROWS
    while True:
        size = _MOST_ROWS if wanted is None else min(wanted - len(found), _MOST_ROWS)
        if keep is not None:
            size, candidates = candidates, min(4 * candidates, _MOST_ROWS)
        body = rows.body(backward=backward, after=after, size=size)
        if first is None:
            answer = await connection.search(rows.index, body, routing=rows.routing)
        else:
            answer, itself = await connection.search_many(
                [Search(rows.index, each, rows.routing) for each in (body, _presence(rows, first))]
            )
            there = bool(itself["hits"]["hits"])
            first = None
        hits = answer["hits"]["hits"]
        kept = hits if keep is None else await keep(hits)
        # Build only the rows that fit on the page.
        found += map(make_row, kept if wanted is None else kept[: wanted - len(found)])
        if len(hits) < size or (wanted is not None and len(found) >= wanted):
            break
        after = hits[-1]["sort"]
    goes_on = wanted is not None and len(found) >= wanted
    found = found[:limit]
    behind = there
    if beside is not None and not there:
        # The anchor row has moved or is deleted, so it does not show whether rows lie behind it.
        behind = await _lies_behind(connection, rows, beside, backward, keep)
    if backward:
        found.reverse()
        return Page(tuple(found), has_previous=goes_on, has_next=behind), there
    return Page(tuple(found), has_previous=behind, has_next=goes_on), there


async def _lies_behind(
    connection: Connection,
    rows: List,
    beside: Beside,
    backward: bool,  # noqa: FBT001 - passed through
    keep: Keep | None,
) -> bool:
    after: Sequence[Any] = beside.values
    while True:
        size = 1 if keep is None else _MOST_ROWS
        body = rows.body(backward=not backward, after=after, size=size)
        answer = await connection.search(rows.index, body, routing=rows.routing)
        hits = answer["hits"]["hits"]
        if hits and (keep is None or await keep(hits)):
            return True
        if len(hits) < size:
            return False
        after = hits[-1]["sort"]


def _presence(rows: List, beside: Beside) -> dict[str, Any]:
    return {
        "size": 1,
        "query": {"bool": {"filter": [rows.query, beside.itself]}},
        "track_total_hits": False,
        "_source": False,
    }
