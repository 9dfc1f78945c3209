"""Keyset pagination over a search; never by an offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from indexing.models.paging import Page
from indexing.store.elasticsearch.client.combined_reads import CombinedReads, search_alone
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.places import Search
from indexing.timestamps import to_microseconds

R = TypeVar("R")

# Returns the hits that belong to the list.
Keep = Callable[[Sequence[Hit]], Awaitable[Sequence[Hit]]]

# The rows of one search. The cluster would return up to 10,000, but their names may take megabytes.
_MOST_ROWS: Final = 2_000
# The number of rows to read first if `keep` drops some of them; each further read takes four times
# as many.
_FIRST_ROWS: Final = 500
# The rows of a search that is sent together with others, because their answers are decoded at once.
_MOST_COMBINED: Final = 500


class SurplusError(Exception):
    """The query of a list finds more rows that do not belong to it than the caller accepts."""


@dataclass(frozen=True, slots=True)
class List:
    """One sorted list in an index: its query, its sort order and the fields to read.

    `order` is the sort key and ends in a field that is unique in the list. All fields sort in the
    same direction. Rows are built from `fields` of the documents, or from whole documents: a node
    copies those, but parses a document to choose fields. With `columns`, rows are built from the
    values of `order` and these columns, which needs no access to the documents. `missing` has the
    values of documents without these fields. With `is_tied`, many rows may have the same value of
    the first field as the anchor row of the page.
    """

    index: str
    routing: str
    query: Mapping[str, Any]
    order: tuple[str, ...]
    ascending: bool
    fields: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    missing: Mapping[str, float] = field(default_factory=dict)
    is_tied: bool = False

    def tied_with(self, value: Any) -> List:
        """Return the part of the list whose first field has that value, sorted by the others."""
        first, *others = self.order
        tied: dict[str, Any] = {"term": {first: value}}
        if first in self.missing and self.missing[first] == value:
            tied = {"bool": {"should": [tied, _without(first)]}}
        query = {"bool": {"filter": [self.query, tied]}}
        return replace(self, query=query, order=tuple(others), is_tied=False)

    def beyond(self, value: Any, *, backward: bool) -> List:
        """Return the part of the list after all rows whose first field has that value."""
        first = self.order[0]
        ascending = self.ascending != backward
        clause: dict[str, Any] = {"range": {first: {"gt" if ascending else "lt": value}}}
        unset = self.missing.get(first, value)
        if unset > value if ascending else unset < value:
            clause = {"bool": {"should": [clause, _without(first)]}}
        return replace(self, query={"bool": {"filter": [self.query, clause]}}, is_tied=False)

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
        if self.columns is not None:
            body |= {"stored_fields": "_none_", "docvalue_fields": list(self.columns)}
        else:
            body["_source"] = True if self.fields is None else list(self.fields)
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
    spare: int | None = None,
    combined: tuple[CombinedReads, Hashable] | None = None,
    only: int | None = None,
) -> tuple[Page[R], bool]:
    """Read one page; also return whether the anchor row is still in the list.

    One extra row shows whether the list continues. `keep` drops rows that the query cannot filter;
    reading then continues until the page is full or the list ends. With `spare`, each search reads
    as many rows beside those of the page. Reading continues once at most, and only if the page is
    half full. With `combined`, the first search is sent together with those of other pages of that
    kind, unless the page is long. With `only`, one search for that many rows has to be enough.

    Raises:
        SurplusError: `keep` drops more rows than there are to spare, or one search is not enough.
    """
    wanted = None if limit is None else limit + 1
    found: list[R] = []
    there = False
    first = beside
    candidates = _FIRST_ROWS
    is_second_read = False
    parts = _split(rows, beside, backward=backward)
    while parts:
        size = _MOST_ROWS if wanted is None else min(wanted - len(found), _MOST_ROWS)
        if keep is not None and spare is not None:
            size = min(size + spare, _MOST_ROWS)
        elif keep is not None:
            size, candidates = candidates, min(4 * candidates, _MOST_ROWS)
        size = min(size, only or size)
        body = parts[0].body(backward=backward, size=size)
        bodies = (body,) if first is None else (body, _presence(rows, first))
        searches = [Search(rows.index, each, rows.routing) for each in bodies]
        answer, *itself = await _search(
            connection, searches, combined if size <= _MOST_COMBINED else None
        )
        first = combined = None
        if itself:
            there = bool(itself[0]["hits"]["hits"])
        hits = parts[0].hits_of(answer)
        kept = hits if keep is None else await keep(hits)
        # Build only the rows that fit on the page.
        found += map(make_row, kept if wanted is None else kept[: wanted - len(found)])
        if wanted is not None and len(found) >= wanted:
            break
        if spare is not None and len(hits) == size:
            if is_second_read or 2 * len(found) < (wanted or 0):
                raise SurplusError
            is_second_read = True
        parts = _after(parts, hits, size)
        if only is not None and parts:
            raise SurplusError
    goes_on = wanted is not None and len(found) >= wanted
    behind = there
    if beside is not None and not there:
        # The anchor row has moved or is deleted, so it does not show whether rows lie behind it.
        behind = await _lies_behind(connection, rows, beside, backward, keep, spare)
    page = page_of_read(found[:limit], backward=backward, goes_on=goes_on, behind=behind)
    return page, there


def page_of_read(rows: Sequence[R], *, backward: bool, goes_on: bool, behind: bool) -> Page[R]:
    """Return the page of rows in the order in which they were read from its anchor on.

    `goes_on` if more rows follow in that direction, `behind` if some lie in the other one.
    """
    if backward:
        return Page(tuple(reversed(rows)), has_previous=goes_on, has_next=behind)
    return Page(tuple(rows), has_previous=behind, has_next=goes_on)


async def _search(
    connection: Connection,
    searches: Sequence[Search],
    combined: tuple[CombinedReads, Hashable] | None,
) -> Sequence[Any]:
    if combined is None:
        return await search_alone(connection, searches)
    reads, kind = combined
    return await reads.search(kind, searches)


async def _lies_behind(
    connection: Connection,
    rows: List,
    beside: Beside,
    backward: bool,  # noqa: FBT001 - passed through
    keep: Keep | None,
    spare: int | None,
) -> bool:
    parts = _split(rows, beside, backward=not backward)
    while parts:
        size = 1 if keep is None else _MOST_ROWS if spare is None else spare
        body = parts[0].body(backward=not backward, size=size)
        answer = await connection.search(rows.index, body, routing=rows.routing)
        hits = parts[0].hits_of(answer)
        if hits and (keep is None or await keep(hits)):
            return True
        if spare is not None and len(hits) == size:
            raise SurplusError
        parts = _after(parts, hits, size)
    return False


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a list, and the sort key after which to read on.

    If all its rows have the same first value of the sort key, it is `value`.
    """

    rows: List
    after: Sequence[Any] | None
    value: tuple[Any, ...] = ()

    def body(self, *, backward: bool, size: int) -> dict[str, Any]:
        return self.rows.body(
            backward=backward,
            after=None if self.after is None else self.after[len(self.value) :],
            size=size,
        )

    def hits_of(self, answer: Any) -> Sequence[Hit]:
        """Return the hits of a search of `body`, with their whole sort keys."""
        hits: Sequence[Hit] = answer["hits"]["hits"]
        if not self.value:
            return hits
        return [{**hit, "sort": [*self.value, *hit["sort"]]} for hit in hits]


def _split(rows: List, beside: Beside | None, *, backward: bool) -> Sequence[_Part]:
    """Return the parts of the list beside the anchor row, in order.

    If many rows have its first value, a search for these alone is cheap, because it is sorted by
    names: a search for all would read each of them. They usually fill the page.
    """
    if beside is None:
        return [_Part(rows, None)]
    if not rows.is_tied:
        return [_Part(rows, beside.values)]
    value = beside.values[0]
    return [
        _Part(rows.tied_with(value), beside.values, (value,)),
        _Part(rows.beyond(value, backward=backward), None),
    ]


def _after(parts: Sequence[_Part], hits: Sequence[Hit], size: int) -> Sequence[_Part]:
    """Return what is left of the parts after these hits of the first one; `size` were wanted."""
    first, *others = parts
    return others if len(hits) < size else [replace(first, after=hits[-1]["sort"]), *others]


def _without(field_name: str) -> dict[str, Any]:
    return {"bool": {"must_not": [{"exists": {"field": field_name}}]}}


def _presence(rows: List, beside: Beside) -> dict[str, Any]:
    return {
        "size": 1,
        "query": {"bool": {"filter": [rows.query, beside.itself]}},
        "track_total_hits": False,
        "_source": False,
    }
