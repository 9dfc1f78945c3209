"""Counts the bytes that are kept for clients, by group. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable


class HeldBytes:
    """Counts texts that several holders share.

    A text counts once for each group that holds it, however many holders of the group there are.
    Every holder keeps a reference to its text, so no other text has the same id meanwhile.
    """

    def __init__(self) -> None:
        # The bytes of all groups.
        self.total = 0
        self._holders: Counter[tuple[int, Hashable]] = Counter()
        self._bytes_of: Counter[Hashable] = Counter()

    @property
    def groups(self) -> Collection[Hashable]:
        """The groups that hold something."""
        return self._bytes_of.keys()

    def of(self, group: Hashable) -> int:
        """Return the bytes of a group."""
        return self._bytes_of[group]

    def find_growth(self, text: bytes, group: Hashable) -> int:
        """Return how many bytes a group would have more with one more holder of that text."""
        return 0 if self._holders[id(text), group] else len(text)

    def has_room(self, text: bytes, group: Hashable, most_of_group: int, most: int) -> bool:
        """Return whether there is room for one more holder of that text.

        A group may hold `most_of_group` bytes, all groups together `most`. A text that the group
        holds already takes no more room.
        """
        growth = self.find_growth(text, group)
        fits = self.of(group) + growth <= most_of_group and self.total + growth <= most
        return not growth or fits

    def hold(self, text: bytes, group: Hashable) -> None:
        """Count a text for one more holder of a group."""
        growth = self.find_growth(text, group)
        self._holders[id(text), group] += 1
        if growth:
            self._bytes_of[group] += growth
            self.total += growth

    def release(self, text: bytes, group: Hashable) -> None:
        """Count a text for one holder less."""
        self._holders[id(text), group] -= 1
        if self._holders[id(text), group]:
            return
        del self._holders[id(text), group]
        self.total -= len(text)
        self._bytes_of[group] -= len(text)
        if not self._bytes_of[group]:
            del self._bytes_of[group]
