"""Loaders of one repository take turns at refreshing it, so that the work is not done twice.

A short lease for each repository, in the control index. It saves work and protects nothing: every
write of a refresh is guarded by versions. So whoever has waited too long goes on without it, and a
lease that its holder has not renewed for `EXPIRES_SECONDS`, by the clock of the waiting process,
is taken over.

The lease also tells whether the last refresh ended well. If it did not, some rows of the search may
lag behind the documents of their tests, and the next refresh writes all of them.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from indexing.errors import StoreError
from indexing.store.elasticsearch.client.connection import ConflictError, Connection, Version
from indexing.store.elasticsearch.indices.layout import Layout

RENEWED_SECONDS: Final = 0.5
EXPIRES_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.1
# A small upload does not wait for a long load of the same repository.
WAIT_SECONDS: Final = 10.0


class Turns:
    """The turns of one process; its own refreshes of a repository queue without any request."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._index = layout.control
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, routing: str) -> AsyncIterator[Turn]:
        """Wait for a turn, for `WAIT_SECONDS` at most, and hold it inside the context."""
        lock = self._locks.get(routing)
        if lock is None:
            lock = self._locks[routing] = asyncio.Lock()
        turn = Turn(self._connection, self._index, f"turn-{routing}")
        async with AsyncExitStack() as held:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(lock)
                    try:
                        await turn.take()
                    except asyncio.CancelledError:
                        await turn.abandon()
                        raise
            async with turn.kept():
                yield turn


class Turn:
    """A turn at refreshing a repository, with or without its lease."""

    def __init__(self, connection: Connection, index: str, document: str) -> None:
        self._connection = connection
        self._index = index
        self._document = document
        self._owner: str | None = uuid.uuid4().hex
        self._held: Version | None = None
        self._others_ended_well = True
        self._met_others = False

    @property
    def is_held(self) -> bool:
        """Whether this process has the lease: if it dies, the next holder knows."""
        return self._held is not None

    @property
    def is_clean(self) -> bool:
        """Whether no other refresh goes on, and all before ended well."""
        return self.is_held and self._others_ended_well

    @property
    def met_others(self) -> bool:
        """Whether another process may have refreshed the repository since this turn was wanted."""
        return self._met_others or not self.is_held

    async def take(self) -> None:
        """Take the lease once it is free, or its holder has not renewed it for long."""
        if await self._put(None):
            return
        self._met_others = True
        seen: Version | None = None
        seen_at = 0.0
        while True:
            found = await self._connection.get(self._index, self._document)
            if found is None:
                if await self._put(None):
                    return
                continue
            now = time.monotonic()
            if found.version != seen:
                seen, seen_at = found.version, now
            if found.source["owner"] is None or now - seen_at > EXPIRES_SECONDS:
                # The refresh of its last holder failed, or is dead.
                self._others_ended_well = False
                if await self._put(found.version):
                    return
                continue
            await asyncio.sleep(LOOK_SECONDS)

    async def abandon(self) -> None:
        """Release the lease if it was taken by a request whose answer nobody has read."""
        # If this fails, the lease expires.
        with suppress(StoreError):
            found = await self._connection.get(self._index, self._document)
            if found is not None and found.source["owner"] == self._owner:
                self._held = found.version
                await self._release(ended_well=self._others_ended_well)
                self._held = None

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease inside the context, and release it; do nothing if it was not taken."""
        if self._held is None:
            yield
            return
        ended = asyncio.Event()
        renewing = asyncio.create_task(self._renew(ended))
        ended_well = False
        try:
            yield
            ended_well = True
        finally:
            # Not cancelled: a write that may have been done would leave its version unknown.
            ended.set()
            await renewing
            # If this fails, the lease expires.
            with suppress(StoreError):
                await self._release(ended_well=ended_well)

    async def _renew(self, ended: asyncio.Event) -> None:
        while self._held is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEWED_SECONDS):
                    await ended.wait()
                    return
            with suppress(StoreError):
                await self._put(self._held)

    async def _release(self, *, ended_well: bool) -> None:
        if self._held is None:
            return
        if not ended_well:
            self._owner = None
            await self._put(self._held)
            return
        target = f"/{self._index}/_doc/{self._document}?{urlencode(self._held.parameters)}"
        await self._connection.request("DELETE", target, allow={404, 409})

    async def _put(self, over: Version | None) -> bool:
        """Write the lease over that version, or create it; return whether it is held now."""
        guard: dict[str, Any] = {"op_type": "create"} if over is None else over.parameters
        target = f"/{self._index}/_doc/{self._document}?{urlencode(guard)}"
        source = {"kind": "turn", "owner": self._owner}
        try:
            answer = await self._connection.request("PUT", target, source)
        except ConflictError:
            self._held = None
            return False
        self._held = Version(answer["_seq_no"], answer["_primary_term"])
        return True
