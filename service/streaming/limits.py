"""How many streams may be open at a time: of one credential, and in the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from service.http.problems import Problem, unavailable

# When a client that has too many streams may try again, in seconds.
RETRY_AFTER: Final = 5


class StreamLimit:
    """Counts the open streams of one kind in this process."""

    def __init__(self, per_principal: int, most: int) -> None:
        self._per_principal = per_principal
        self._most = most
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._open.total()

    def acquire(self, principal: str) -> Callable[[], None]:
        """Open a stream of that principal; return the function that closes it, once or repeatedly.

        Raises:
            Problem: 429 if the principal has too many, 503 if the process has too many.
        """
        if self._open[principal] >= self._per_principal:
            raise Problem(
                429,
                f"this credential has {self._per_principal} streams open,"
                " the most that it may have",
                headers={"Retry-After": str(RETRY_AFTER)},
            )
        if self.open >= self._most:
            raise unavailable("too many streams are open, retry later")
        self._open[principal] += 1
        is_open = True

        def release() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._open[principal] -= 1
                if not self._open[principal]:
                    del self._open[principal]

        return release
