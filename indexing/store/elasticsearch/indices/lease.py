"""A lease in the control index: one process at a time upgrades the layout, the others wait.

A waiting process measures time by its own clock: a lease that is not renewed for
`EXPIRES_SECONDS` belongs to a dead process. Optimistic concurrency control protects every step, so
clocks need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlencode

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.connection import ConflictError, Connection, Version
from indexing.store.elasticsearch.indices.layout import Layout

_DOCUMENT: Final = "upgrade"

RENEWED_SECONDS: Final = 10.0
EXPIRES_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0
TOLD_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class Lease:
    """One process's handle on the lease."""

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._owner = uuid.uuid4().hex
        self._held: Version | None = None
        self._turn = asyncio.Lock()

    async def try_to_take(self, over: Version | None) -> bool:
        """Take the lease if it is free, or replace the version `over` of an expired one."""
        source = {"kind": "upgrade", "owner": self._owner}
        try:
            await self._connection.put(
                self._layout.control, _DOCUMENT, source, over=over, visible=False
            )
        except ConflictError:
            return False
        document = await self._connection.get(self._layout.control, _DOCUMENT)
        if document is None or document.source["owner"] != self._owner:
            return False
        self._held = document.version
        return True

    async def find(self) -> Version | None:
        """Return the version of the lease, whichever process holds it; None if it is free."""
        document = await self._connection.get(self._layout.control, _DOCUMENT)
        return None if document is None else document.version

    async def renew(self) -> None:
        """Renew the lease.

        Raises:
            StoreUnavailableError: another process has taken it.
        """
        async with self._turn:
            if self._held is None or not await self.try_to_take(self._held):
                raise StoreUnavailableError("another process has taken over the upgrade")

    async def release(self) -> None:
        """Release the lease, unless another process has taken it already."""
        if self._held is not None:
            guard = urlencode(self._held.parameters)
            target = f"/{self._layout.control}/_doc/{_DOCUMENT}?{guard}"
            await self._connection.request("DELETE", target, allow={404, 409})


@asynccontextmanager
async def hold_lease(
    connection: Connection, layout: Layout, is_done: Callable[[], Awaitable[bool]]
) -> AsyncIterator[Lease | None]:
    """Wait for the lease and hold it; yields None if another process has done the work."""
    lease = Lease(connection, layout)
    if not await _wait(lease, is_done):
        yield None
        return
    renewing = asyncio.create_task(_keep(lease))
    try:
        yield lease
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError, StoreUnavailableError):
            await renewing
        # Release after a failure too: the next process may then try at once.
        with suppress(StoreUnavailableError):
            await lease.release()


async def _wait(lease: Lease, is_done: Callable[[], Awaitable[bool]]) -> bool:
    began = seen_at = time.monotonic()
    told = began - TOLD_SECONDS
    seen: Version | None = None
    while not await is_done():
        found = await lease.find()
        now = time.monotonic()
        if found != seen:
            seen, seen_at = found, now
        if found is None or now - seen_at > EXPIRES_SECONDS:
            if await lease.try_to_take(found):
                return not await is_done()
            continue
        if now - told >= TOLD_SECONDS:
            told = now
            _log.warning(
                "waiting for another process that upgrades the indices; %.0f s so far", now - began
            )
        await asyncio.sleep(LOOK_SECONDS)
    return False


async def _keep(lease: Lease) -> None:
    while True:
        await asyncio.sleep(RENEWED_SECONDS)
        await lease.renew()
