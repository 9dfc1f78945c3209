"""A lease: a document of the control index that one process holds and renews.

Optimistic concurrency control guards every write of it. A waiting process measures with its own
clock how long the lease was not renewed, so the clocks of processes need not agree.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection, Timeouts
from indexing.store.elasticsearch.client.documents import Document, Version
from indexing.store.elasticsearch.client.failures import CONFLICT, NOT_FOUND, ConflictError


class LeaseDocument:
    """The document of one lease; it is missing while no process holds the lease."""

    def __init__(self, connection: Connection, index: str, document: str) -> None:
        self._connection = connection
        self._target = f"/{index}/_doc/{document}"
        self._index = index
        self._document = document

    async def find(self) -> Document | None:
        """Return the document, whichever process wrote it."""
        return await self._connection.get(self._index, self._document)

    async def put(
        self, source: Mapping[str, Any], over: Version | None, timeouts: Timeouts | None = None
    ) -> Version | None:
        """Replace the version `over`, or create the document; return the new version.

        Returns None if another process has written the document since.
        """
        guard: dict[str, Any] = {"op_type": "create"} if over is None else over.parameters
        target = f"{self._target}?{urlencode(guard)}"
        try:
            answer = await self._connection.request(
                "PUT", target, source, timeouts=timeouts, needs="_seq_no"
            )
        except ConflictError:
            # A request whose response was lost is sent again, and conflicts with itself.
            found = await self.find()
            return found.version if found is not None and found.holds(source) else None
        return Version.of(answer)

    async def delete(self, version: Version) -> None:
        """Delete this version of the document, if it is still the current one."""
        target = f"{self._target}?{urlencode(version.parameters)}"
        await self._connection.request(
            "DELETE", target, allow={NOT_FOUND, CONFLICT}, needs="result"
        )

    def deleting(self, version: Version) -> Operation:
        """Return the same delete as a bulk operation."""
        return Operation("delete", self._index, self._document, None, guard=version.parameters)


class LeaseWatch:
    """Measures, for a waiting process, how long a lease was not renewed."""

    def __init__(self, expires_seconds: float) -> None:
        self._expires_seconds = expires_seconds
        self._seen: Version | None = None
        self._seen_at = 0.0

    def is_expired(self, version: Version) -> bool:
        """Return whether the lease has had this version for longer than `expires_seconds`."""
        now = time.monotonic()
        if version != self._seen:
            self._seen, self._seen_at = version, now
        return now - self._seen_at > self._expires_seconds


async def ends_within(ended: asyncio.Event, seconds: float) -> bool:
    """Wait until the work under a lease has ended, or it is time to renew the lease."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ended.wait()
    return ended.is_set()
