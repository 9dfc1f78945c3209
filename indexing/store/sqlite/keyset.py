"""Pages by key: the rows after or before a key, never a number of rows to pass over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from indexing.models.paging import Anchor, Page

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one index to be read: from a key on, in one direction.

    `key` has a value for each of `columns`. `inclusive` takes the row of the key itself as well.
    `ascending` is the direction of reading, which is not that of the list on the way back.
    `limit` is how many rows are wanted, `None` all.
    """

    columns: tuple[str, ...]
    key: tuple[Any, ...] | None
    ascending: bool
    inclusive: bool
    limit: int | None

    @property
    def condition(self) -> str:
        """SQL that holds for the rows of the slice; takes `key` as its parameters."""
        if self.key is None:
            return "1"
        sign = (">" if self.ascending else "<") + ("=" if self.inclusive else "")
        marks = ", ".join("?" * len(self.columns))
        return f"({', '.join(self.columns)}) {sign} ({marks})"

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The values that `condition` takes."""
        return self.key or ()

    @property
    def order(self) -> str:
        """SQL of the ORDER BY."""
        direction = "" if self.ascending else " DESC"
        return "ORDER BY " + ", ".join(column + direction for column in self.columns)

    @property
    def limited_order(self) -> str:
        """SQL of the ORDER BY and LIMIT."""
        return self.order if self.limit is None else f"{self.order} LIMIT {self.limit}"


def read_page(
    fetch: Callable[[Slice], list[R]],
    columns: tuple[str, ...],
    *,
    anchor: Anchor[K],
    key_of: Callable[[K], tuple[Any, ...]],
    ascending: bool,
    limit: int | None,
) -> Page[R]:
    """Read one page of a list that is ordered by `columns`, all in one direction.

    One row more than asked for tells whether the list goes on; one row on the other side of the
    key, its own included, tells whether there is anything to go back to.
    """
    key = None if anchor.key is None else key_of(anchor.key)
    reading_ascending = ascending != anchor.backward
    wanted = None if limit is None else limit + 1
    rows = fetch(Slice(columns, key, ascending=reading_ascending, inclusive=False, limit=wanted))
    goes_on = limit is not None and len(rows) > limit
    rows = rows[:limit]
    behind = key is not None and bool(
        fetch(Slice(columns, key, ascending=not reading_ascending, inclusive=True, limit=1))
    )
    if anchor.backward:
        rows.reverse()
        return Page(tuple(rows), has_previous=goes_on, has_next=behind)
    return Page(tuple(rows), has_previous=behind, has_next=goes_on)
