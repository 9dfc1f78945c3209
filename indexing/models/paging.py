"""One page of any list, and the place in its order that the page begins at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Anchor(Generic[K]):
    """Where a page lies in the order of a list.

    `key` is the row that the page lies beside, itself not in the page; `None` is the end of the
    list. The page lies after it or, with `backward`, before it.
    """

    key: K | None = None
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows in the order of their list, and whether that list has more on either side."""

    rows: tuple[R, ...]
    has_previous: bool
    has_next: bool
