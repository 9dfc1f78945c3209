"""The lease of a refresh: one process at a time refreshes a repository, so no work is done twice.

Each repository has its own short lease. The lease only saves work; correctness does not depend on
it, because every write of a refresh checks versions. So a process that has waited too long goes on
without the lease, and may take over a lease that was not renewed for `EXPIRES_SECONDS`.

The lease also shows whether the last refresh ended well. If it did not, some rows of the search may
be older than the documents of their tests, and the next refresh writes all rows.

The same is true of a single test whose write conflicts. A request whose response was lost is sent
again, and then conflicts with itself: the document of the test is written, but not its rows.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from weakref import WeakValueDictionary

from indexing.errors import StoreError
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.lease import LeaseDocument, LeaseWatch, ends_within

RENEWED_SECONDS: Final = 0.5
EXPIRES_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.1
# A small upload does not wait for a long load of the same repository.
WAIT_SECONDS: Final = 10.0


class RefreshLeases:
    """The leases of one process; its own refreshes of a repository wait for each other locally."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._index = layout.control
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, routing: str) -> AsyncIterator[RefreshLease]:
        """Wait for the lease, for `WAIT_SECONDS` at most, and hold it inside the context.

        After that time the context is entered without it.
        """
        lock = self._locks.get(routing)
        if lock is None:
            lock = self._locks[routing] = asyncio.Lock()
        lease = RefreshLease(self._connection, self._index, routing)
        async with AsyncExitStack() as held:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(lock)
                    try:
                        await lease.acquire()
                    except asyncio.CancelledError:
                        await lease.abandon()
                        raise
            async with lease.kept():
                yield lease


class RefreshLease:
    """One process's handle on the lease of a repository, for one refresh."""

    def __init__(self, connection: Connection, index: str, routing: str) -> None:
        # This is the name in earlier releases; processes of both releases must use one document.
        self._document = LeaseDocument(connection, index, f"turn-{routing}")
        self._owner: str | None = uuid.uuid4().hex
        self._held: Version | None = None
        self._others_ended_well = True
        self._met_others = False
        self._last: list[Operation] = []
        # The tests whose last write conflicted.
        self._doubtful: set[str] = set()
        self._connection = connection

    @property
    def is_held(self) -> bool:
        """Whether this process has the lease; if it dies, the next holder notices that."""
        return self._held is not None

    @property
    def is_clean(self) -> bool:
        """Whether no other refresh is running, and all earlier ones ended well."""
        return self.is_held and self._others_ended_well

    def doubt(self, test: str) -> None:
        """Note that the write of this test conflicted."""
        self._doubtful.add(test)

    def trust(self, test: str) -> None:
        """Note that this test and all of its rows are written."""
        self._doubtful.discard(test)

    def may_lack_rows(self, test: str) -> bool:
        """Whether rows of this test may be older than its document."""
        return not self.is_clean or test in self._doubtful

    @property
    def met_others(self) -> bool:
        """Whether another process may have refreshed the repository since `acquire` was called."""
        return self._met_others or not self.is_held

    async def acquire(self) -> None:
        """Wait for the lease until it is free or expired, and hold it."""
        if await self._put(None):
            return
        self._met_others = True
        watch = LeaseWatch(EXPIRES_SECONDS)
        while True:
            found = await self._document.find()
            if found is None:
                if await self._put(None):
                    return
                continue
            if found.source["owner"] is None or watch.is_expired(found.version):
                # The refresh of its last holder failed, or is dead.
                self._others_ended_well = False
                if await self._put(found.version):
                    return
                continue
            await asyncio.sleep(LOOK_SECONDS)

    def end_with(self, operations: Sequence[Operation]) -> None:
        """Execute the last operations of the refresh in the same request that ends the lease.

        They are executed even if this process does not hold the lease, but not if the refresh
        fails.
        """
        self._last += operations

    async def abandon(self) -> None:
        """Release the lease if a cancelled request has taken it, whose response was not read."""
        # If this fails, the lease expires.
        with suppress(StoreError):
            found = await self._document.find()
            if found is not None and found.source["owner"] == self._owner:
                self._held = found.version
                await self._release(ended_well=self._others_ended_well)
                self._held = None

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease inside the context, if it was taken, and release it.

        Raises:
            StoreError: the operations of `end_with` have failed.
        """
        ended = asyncio.Event()
        renewing = asyncio.create_task(self._renew(ended))
        ended_well = False
        try:
            yield
            ended_well = not self._doubtful
        finally:
            # Do not cancel the task: it may be in the middle of a write, and then the version of
            # the lease would be unknown.
            ended.set()
            await renewing
            if not ended_well or not self._last:
                # If this fails, the lease expires.
                with suppress(StoreError):
                    await self._release(ended_well=ended_well)
        if self._last:
            held = self._held if ended_well else None
            releasing = [] if held is None else [self._document.deleting(held)]
            await bulk.send(self._connection, [*self._last, *releasing], visible=False)

    async def _renew(self, ended: asyncio.Event) -> None:
        while self._held is not None and not await ends_within(ended, RENEWED_SECONDS):
            with suppress(StoreError):
                await self._put(self._held)

    async def _release(self, *, ended_well: bool) -> None:
        if self._held is None:
            return
        if not ended_well:
            self._owner = None
            await self._put(self._held)
            return
        await self._document.delete(self._held)

    async def _put(self, over: Version | None) -> bool:
        """Replace the version `over` of the lease, or create it; return whether it is held now."""
        self._held = await self._document.put({"kind": "turn", "owner": self._owner}, over)
        return self._held is not None
