"""Keyset pagination: pages start after or before a key, never at an offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from indexing.models.paging import Anchor, Page

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of one index to read: from a key onwards, in one direction.

    `key` has a value for each of `columns`; `None` reads from the beginning. `inclusive` includes
    the row of the key itself. `ascending` is the direction of reading, which is opposite to that of
    the list when paging backward. `limit` is the number of rows, `None` for all.
    """

    columns: tuple[str, ...]
    key: tuple[Any, ...] | None
    ascending: bool
    inclusive: bool
    limit: int | None

    @property
    def condition(self) -> str:
        """SQL that is true for the rows of the slice; its parameters are `parameters`."""
        if self.key is None:
            return "1"
        return _condition_of(self.columns, ascending=self.ascending, inclusive=self.inclusive)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The parameters of `condition`."""
        return self.key or ()

    @property
    def order(self) -> str:
        """The ORDER BY clause."""
        return _order_of(self.columns, ascending=self.ascending)

    @property
    def limited_order(self) -> str:
        """The ORDER BY and LIMIT clauses."""
        return self.order if self.limit is None else f"{self.order} LIMIT {self.limit}"


# Each list has few orders, so these texts are built once.
@cache
def _condition_of(columns: tuple[str, ...], *, ascending: bool, inclusive: bool) -> str:
    sign = (">" if ascending else "<") + ("=" if inclusive else "")
    marks = ", ".join("?" * len(columns))
    return f"({', '.join(columns)}) {sign} ({marks})"


@cache
def _order_of(columns: tuple[str, ...], *, ascending: bool) -> str:
    direction = "" if ascending else " DESC"
    return "ORDER BY " + ", ".join(column + direction for column in columns)


def read_page(
    fetch: Callable[[Slice], list[R]],
    columns: tuple[str, ...],
    *,
    anchor: Anchor[K],
    key_of: Callable[[K], tuple[Any, ...]],
    ascending: bool,
    limit: int | None,
) -> Page[R]:
    """Read one page of a list that is sorted by `columns`, all in one direction.

    One extra row shows whether the list goes on. One row on the other side of the key, or the row
    of the key itself, shows whether there is a previous page.
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
