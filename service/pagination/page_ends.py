"""Where a page ends on either side: what its links are made of. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from indexing.models.paging import Page
from service.pagination.key_codec import KeyCodec

K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Ends(Generic[K]):
    """The sort keys of the first and last row of a page, and whether there are more rows beyond."""

    first: K | None = None
    last: K | None = None
    has_previous: bool = False
    has_next: bool = False


# Of an answer that is not a page of a list.
NO_ENDS: Final[Ends[bytes]] = Ends()


def pack_ends(page: Page[R], place_of: Callable[[R], K], codec: KeyCodec[K]) -> Ends[bytes]:
    """The ends of a page, with packed sort keys."""
    if not page.rows:
        return Ends(None, None, page.has_previous, page.has_next)
    first, last = codec.pack(place_of(page.rows[0])), codec.pack(place_of(page.rows[-1]))
    return Ends(first, last, page.has_previous, page.has_next)
