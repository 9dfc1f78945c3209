"""The part of a cache key that says what was asked: equal requests give equal bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from indexing.models.paging import Anchor
from service.pagination.cursor import KeyCodec

K = TypeVar("K")


def filters_of(query: type, *, but: Collection[str] = ()) -> Callable[[Any], tuple[object, ...]]:
    """Return a function that reads the fields of a query that belong in its cache key.

    The repository is in the key anyway. `but` names further fields that do not change the answer.
    """
    left_out = {"repository", *but}
    names = [field.name for field in fields(query) if field.name not in left_out]
    read = attrgetter(*names)
    # With one name, `attrgetter` returns the value itself, not a tuple.
    return read if len(names) > 1 else lambda query: (read(query),)


def canonical_page(
    filters: tuple[object, ...], anchor: Anchor[K], limit: int | None, codec: KeyCodec[K]
) -> bytes:
    """Return bytes that identify a page of a list."""
    shape = orjson.dumps([*filters, anchor.backward, limit])
    return shape if anchor.key is None else shape + codec.pack(anchor.key)
