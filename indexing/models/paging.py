"""A page of any list, and the position at which a page begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
R = TypeVar("R")


class HasKey(Protocol):
    """A row with its sort key."""

    @property
    def key(self) -> Any: ...


class HasBody(Protocol):
    """A row with the text of an event."""

    @property
    def body(self) -> bytes: ...


B = TypeVar("B", bound=HasBody)


@dataclass(frozen=True, slots=True)
class Anchor(Generic[K]):
    """The position of a page in a list.

    `key` is the sort key of the row next to the page; that row is not in the page. The page is
    after the key or, with `backward`, before it. Without a key, it is at the start of the list or,
    with `backward`, at the end.
    """

    key: K | None = None
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows in the order of their list, and whether there are more on either side."""

    rows: tuple[R, ...]
    has_previous: bool
    has_next: bool


def take_fitting(found: Iterable[B], most: int) -> tuple[tuple[B, ...], bool]:
    """Return the first rows, whose bodies have at most `most` bytes, and whether these are all.

    There is at least one, unless `found` is empty.
    """
    rows: list[B] = []
    size = 0
    for row in found:
        size += len(row.body)
        if rows and size > most:
            return tuple(rows), False
        rows.append(row)
    return tuple(rows), True
