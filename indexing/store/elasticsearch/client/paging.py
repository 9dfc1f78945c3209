"""Pages by key over a search: the rows beside a key, never a number of rows to pass over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from indexing.models.paging import Page
from indexing.store.elasticsearch.client.connection import Connection

R = TypeVar("R")

Hit = Mapping[str, Any]
# Gives those of the hits that belong into the list.
Keep = Callable[[Sequence[Hit]], Awaitable[Sequence[Hit]]]

# A search gives at most 10,000 rows; the names of so many may take megabytes.
_MOST_ROWS: Final = 2_000
# Where only some of the rows are kept, how many are read first; each time it is four times as
# many.
_FIRST_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class List:
    """One list in the index: which documents, in which order, and what of them is wanted.

    `order` ends in what is unique in the list; all of it runs in one direction, `ascending` or
    not. `fields` are the members of the documents that rows are made of. With `column` rows are
    made of the values in `order` and of that column, which is read without opening a document.
    """

    index: str
    routing: str
    query: Mapping[str, Any]
    order: tuple[str, ...]
    ascending: bool
    fields: tuple[str, ...]
    column: str | None = None

    def body(self, *, backward: bool, after: Sequence[Any] | None, size: int) -> dict[str, Any]:
        """The request for so many rows beyond `after`, or from the end of the list."""
        direction = "asc" if self.ascending != backward else "desc"
        body: dict[str, Any] = {
            "size": size,
            "query": self.query,
            "sort": [{field: direction} for field in self.order],
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
    """The row that a page lies beside: its values in the list's order, and how it is found."""

    values: tuple[Any, ...]
    itself: Mapping[str, Any]


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
    """Read one page; also tells whether the row that it lies beside is still in the list.

    One row more than asked for tells whether the list goes on. `keep` drops rows that the query
    could not: then more are read, until the page is full or the list is over.
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
            answer, itself = await connection.search_both(
                rows.index, body, _presence(rows, first), routing=rows.routing
            )
            there = bool(itself["hits"]["hits"])
            first = None
        hits = answer["hits"]["hits"]
        kept = hits if keep is None else await keep(hits)
        # Of many that were kept only those are made that the page has room for.
        found += map(make_row, kept if wanted is None else kept[: wanted - len(found)])
        if len(hits) < size or (wanted is not None and len(found) >= wanted):
            break
        after = hits[-1]["sort"]
    goes_on = wanted is not None and len(found) >= wanted
    found = found[:limit]
    behind = there
    if beside is not None and not there:
        # Its row has moved or gone: whether anything lies behind has to be looked up.
        behind = await _lies_behind(connection, rows, beside, backward, keep)
    if backward:
        found.reverse()
        return Page(tuple(found), has_previous=goes_on, has_next=behind), there
    return Page(tuple(found), has_previous=behind, has_next=goes_on), there


async def _lies_behind(
    connection: Connection,
    rows: List,
    beside: Beside,
    backward: bool,  # noqa: FBT001 - handed on
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
