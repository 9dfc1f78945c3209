"""Fair queues for reads: one for expensive searches, and one for all requests to the cluster.

A node runs few requests at once and queues the others in the order of their arrival, whoever sent
them. So tenants take turns here.
"""

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
# The requests of one tenant that may be in progress for each node. A node with two cores has four
# threads for searches, so this leaves one to all others.
REQUESTS_PER_TENANT: Final = 3
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


class ReadQueue:
    """The searches and looked-up documents that readers wait for, as requests to the cluster."""

    def __init__(self, nodes: int, requests_per_node: int) -> None:
        self._slots = FairSemaphore(nodes * requests_per_node, nodes * REQUESTS_PER_TENANT)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the context; work of no tenant does not wait.

        Such is the work of a command, of the background, and for all tenants together.

        Raises:
            StoreUnavailableError: no slot became free in time.
        """
        tenant = current_tenant.get()
        if tenant is None:
            yield
        elif self._slots.has_room(tenant):
            async with self._slots.slot(tenant):
                yield
        else:
            try:
                async with acquire_within(WAIT_SECONDS, self._slots.slot(tenant)):
                    yield
            except TimeoutError as error:
                raise StoreUnavailableError("too many reads at once") from error
