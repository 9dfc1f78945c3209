"""One page of any list, and the position that the page begins at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Anchor(Generic[K]):
    """The position of a page in a list.

    `key` is the row next to the page; the row itself is not in the page. `None` is the end of the
    list. The page lies after the key or, with `backward`, before it.
    """

    key: K | None = None
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows in the order of their list, and whether there are more on either side."""

    rows: tuple[R, ...]
    has_previous: bool
    has_next: bool
