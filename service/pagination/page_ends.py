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
    """Where a page ends on either side, and whether its list goes on there."""

    first: K | None = None
    last: K | None = None
    has_previous: bool = False
    has_next: bool = False


# Of what is no page of a list.
NO_ENDS: Final[Ends[bytes]] = Ends()


def pack_ends(page: Page[R], place_of: Callable[[R], K], codec: KeyCodec[K]) -> Ends[bytes]:
    """The ends of a page, in the bytes that cursors carry."""
    if not page.rows:
        return Ends(None, None, page.has_previous, page.has_next)
    first, last = codec.pack(place_of(page.rows[0])), codec.pack(place_of(page.rows[-1]))
    return Ends(first, last, page.has_previous, page.has_next)
