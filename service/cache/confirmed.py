"""Values of which a caller has to know whether they were stored, unlike those of the cache.

They live as long as a session, and no write to the store makes them invalid. Redis holds them
(`service/cache/redis_values.py`), or one of the places in `service/cache/local_values.py`.
"""

from __future__ import annotations

from typing import Protocol

from indexing.errors import MergewatchError


class CacheUnavailableError(MergewatchError):
    """Values can neither be read nor written now; a later try may succeed."""


class ConfirmedValues(Protocol):
    """Holds values by names of letters and digits.

    All methods raise `CacheUnavailableError`. A value may be lost: what holds it may be full, or be
    restarted.
    """

    async def keep(self, name: str, value: bytes, seconds: float) -> None:
        """Store a value for that many seconds."""

    async def find(self, name: str) -> bytes | None:
        """Return the value of that name; `None` if it has expired or is lost."""

    async def drop(self, name: str) -> None:
        """Remove the value of that name, if present."""
