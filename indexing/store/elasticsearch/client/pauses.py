"""Remembers for a while that something was refused, so that it is not tried each time."""

from __future__ import annotations

import time


class Pause:
    """A pause of some seconds after each refusal."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def begin(self) -> None:
        """Pause from now on."""
        self._until = time.monotonic() + self._seconds
