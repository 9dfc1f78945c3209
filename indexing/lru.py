"""A least-recently-used cache in memory, bounded by bytes."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")

# The memory of a value besides its bytes: its objects, their keys and the slot in the table.
OVERHEAD: Final = 2_000


class Lru(Generic[V]):
    """A bounded table of values, each with a deadline on the monotonic clock."""

    __slots__ = ("_held", "_max_size", "_overhead", "_size")

    def __init__(self, max_size: int, overhead: int = OVERHEAD) -> None:
        self._held: OrderedDict[Hashable, tuple[V, float, int]] = OrderedDict()
        self._max_size = max_size
        self._overhead = overhead
        self._size = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size(self) -> int:
        """The memory that the values and their overhead take, in bytes."""
        return self._size

    def find(self, name: Hashable) -> V | None:
        """Return the value of that name, unless it has expired."""
        held = self._held.get(name)
        if held is None:
            return None
        if held[1] <= time.monotonic():
            self.drop(name)
            return None
        self._held.move_to_end(name)
        return held[0]

    def keep(self, name: Hashable, value: V, size: int, deadline: float) -> None:
        """Store a value of `size` bytes until the deadline, or until others need the room."""
        self.drop(name)
        self._drop_expired()
        cost = size + self._overhead
        if cost > self._max_size:
            return
        self._held[name] = (value, deadline, cost)
        self._size += cost
        while self._size > self._max_size:
            _, (_, _, freed) = self._held.popitem(last=False)
            self._size -= freed

    def drop(self, name: Hashable) -> None:
        """Remove the value of that name, if present."""
        held = self._held.pop(name, None)
        if held is not None:
            self._size -= held[2]

    def _drop_expired(self) -> None:
        """Remove expired values, least recently used first, up to the first that is still valid."""
        now = time.monotonic()
        while self._held:
            name, (_, deadline, _) = next(iter(self._held.items()))
            if deadline > now:
                break
            self.drop(name)
