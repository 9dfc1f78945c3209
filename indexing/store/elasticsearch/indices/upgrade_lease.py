"""The lease of an upgrade: one process at a time upgrades the layout, the others wait.

A lease that was not renewed for `EXPIRES_SECONDS` belongs to a dead process. Every step of the
upgrade is also protected by optimistic concurrency control.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.lease import LeaseDocument, LeaseWatch, ends_within

_DOCUMENT: Final = "upgrade"

RENEWED_SECONDS: Final = 10.0
EXPIRES_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0
LOG_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class UpgradeLease:
    """One process's handle on the lease."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._document = LeaseDocument(connection, layout.control, _DOCUMENT)
        self._owner = uuid.uuid4().hex
        self._held: Version | None = None
        self._lock = asyncio.Lock()

    async def try_acquire(self, over: Version | None) -> bool:
        """Take the lease if it is free, or replace the version `over` of an expired one."""
        source = {"kind": "upgrade", "owner": self._owner}
        held = await self._document.put(source, over, WRITING)
        if held is None:
            return False
        self._held = held
        return True

    async def find(self) -> Version | None:
        """Return the version of the lease, whichever process holds it; None if it is free."""
        document = await self._document.find()
        return None if document is None else document.version

    async def renew(self) -> None:
        """Renew the lease.

        Raises:
            StoreUnavailableError: another process has taken it.
        """
        async with self._lock:
            if self._held is None or not await self.try_acquire(self._held):
                raise StoreUnavailableError("another process has taken over the upgrade")

    async def release(self) -> None:
        """Release the lease, unless another process has taken it already."""
        if self._held is not None:
            await self._document.delete(self._held)


@asynccontextmanager
async def hold_lease(
    connection: Connection, layout: Layout, is_done: Callable[[], Awaitable[bool]]
) -> AsyncIterator[UpgradeLease | None]:
    """Wait for the lease and hold it; yield None if another process has done the work."""
    lease = UpgradeLease(connection, layout)
    if not await _wait(lease, is_done):
        yield None
        return
    ended = asyncio.Event()
    renewing = asyncio.create_task(_keep(lease, ended))
    try:
        # Another process may have done it just before this one took the lease.
        yield None if await is_done() else lease
    finally:
        ended.set()
        # Not cancelled: a renewal in progress may be written all the same, and then `release` would
        # not know the version of the lease.
        with suppress(StoreUnavailableError):
            await renewing
        # Release it after a failure too, so that the next process can try at once.
        with suppress(StoreUnavailableError):
            await lease.release()


async def _wait(lease: UpgradeLease, is_done: Callable[[], Awaitable[bool]]) -> bool:
    watch = LeaseWatch(EXPIRES_SECONDS)
    began = time.monotonic()
    reported = began - LOG_SECONDS
    while not await is_done():
        found = await lease.find()
        if found is None or watch.is_expired(found):
            if await lease.try_acquire(found):
                return True
            continue
        now = time.monotonic()
        if now - reported >= LOG_SECONDS:
            reported = now
            _log.warning(
                "waiting for another process that upgrades the indices; %.0f s so far", now - began
            )
        await asyncio.sleep(LOOK_SECONDS)
    return False


async def _keep(lease: UpgradeLease, ended: asyncio.Event) -> None:
    while not await ends_within(ended, RENEWED_SECONDS):
        await lease.renew()
