"""How the sort keys of a list become bytes in a cursor, and come back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from indexing.names import RepositoryName

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class KeyCodec(Generic[K]):
    """How the sort keys of one list become bytes and come back.

    `shorten` gives the shortest bytes that stand for the same row of that repository.
    """

    pack: Callable[[K], bytes]
    unpack: Callable[[bytes], K]
    shorten: Callable[[RepositoryName, bytes], bytes] = lambda _, packed: packed
