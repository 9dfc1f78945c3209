"""A fair queue for expensive searches, so that a node runs few of them at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from indexing.errors import StoreUnavailableError
from indexing.fairness import FairSemaphore, acquire_within, current_tenant

# The expensive searches that may run at once, in total and for one tenant. Each may keep a core of
# a node busy for half a second.
SEARCHES_AT_ONCE: Final = 2
SEARCHES_PER_TENANT: Final = 1
# A reader gets an answer or an error within two seconds.
WAIT_SECONDS: Final = 1.5


class SearchQueue:
    """The search queue of one process; tenants take turns (fair queue)."""

    def __init__(self) -> None:
        self._slots = FairSemaphore(SEARCHES_AT_ONCE, SEARCHES_PER_TENANT)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the context.

        Raises:
            StoreUnavailableError: no slot became free in time.
        """
        try:
            async with acquire_within(WAIT_SECONDS, self._slots.slot(current_tenant.get())):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError("too many expensive searches at once") from error
