"""How many streams may be open at a time: of a credential, of an owner, and in the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from service.http.problems import too_many_open, unavailable

# The part of all places that one owner leaves to others, however many credentials read its data.
_RESERVED: Final = 1 / 8


class StreamLimit:
    """Counts the open streams of one kind in this process."""

    def __init__(self, per_principal: int, most: int) -> None:
        self._per_principal = per_principal
        self._most = most
        self._per_owner = most - int(most * _RESERVED)
        self._open: Counter[str] = Counter()
        self._of_owners: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._open.total()

    def acquire(self, principal: str, owner: str) -> Callable[[], None]:
        """Open a stream of that principal, of data of that owner.

        Returns the function that closes it, once or repeatedly.

        Raises:
            Problem: 429 if the principal has too many, 503 if the owner or the process has.
        """
        if self._open[principal] >= self._per_principal:
            raise too_many_open(
                f"this credential has {self._per_principal} streams open, the most that it may have"
            )
        owner = owner.lower()
        if self.open >= self._most or self._of_owners[owner] >= self._per_owner:
            raise unavailable("too many streams are open, retry later")
        self._open[principal] += 1
        self._of_owners[owner] += 1
        is_open = True

        def release() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                for counter, name in ((self._open, principal), (self._of_owners, owner)):
                    counter[name] -= 1
                    if not counter[name]:
                        del counter[name]

        return release
