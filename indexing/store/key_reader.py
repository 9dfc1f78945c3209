"""The reads of application keys; `interface` has the guarantees of all reads of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from indexing.models.keys import ApplicationKey


class KeyReader(Protocol):
    """Reads application keys, including revoked and expired ones."""

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        """Find the application key with that SHA-256 digest."""

    async def get_key(self, key_id: str) -> ApplicationKey | None:
        """Return the application key with that id; `None` if there is none."""

    async def list_keys(self) -> Sequence[ApplicationKey]:
        """List all application keys, oldest first."""
