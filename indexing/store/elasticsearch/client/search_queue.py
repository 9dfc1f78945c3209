"""Fair queues: one for expensive searches, and one for all requests to the cluster.

A node runs few requests at once and queues the others in the order of their arrival, whoever sent
them. So tenants take turns here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
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
READS_PER_TENANT: Final = 3
# It has two threads for writes, so more are not written sooner: with 32 small uploads at once, the
# throughput was the same without a limit. Uploads also read.
WRITES_PER_TENANT: Final = 4
# A reader gets an answer or an error within two seconds.
WAIT_SECONDS: Final = 1.5
# An upload waits up to a minute for each of its requests, which still has to be answered then.
WRITE_WAIT_SECONDS: Final = 50.0


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
        tenant = current_tenant.get()
        async with _slot_within(WAIT_SECONDS, self._slots, tenant, "expensive searches"):
            yield


class RequestQueue:
    """The requests that a process has sent to a cluster: reads, and all with a longer timeout.

    Work of no tenant does not wait: that of a command, of the background, and for all tenants
    together. Nor does a request for a single document, which costs little: a lease must not wait
    for other requests of the tenant that holds it.
    """

    def __init__(self, nodes: int, requests_per_node: int) -> None:
        most = nodes * requests_per_node
        self._reads = FairSemaphore(most, nodes * READS_PER_TENANT)
        self._writes = FairSemaphore(most, nodes * WRITES_PER_TENANT)

    @asynccontextmanager
    async def slot(self, method: str, *, is_read: bool) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the context.

        Raises:
            StoreUnavailableError: no slot became free in time.
        """
        tenant = current_tenant.get()
        slots = self._reads if is_read else self._writes
        if tenant is None or method != "POST":
            yield
        elif slots.has_room(tenant):
            async with slots.slot(tenant):
                yield
        else:
            seconds = WAIT_SECONDS if is_read else WRITE_WAIT_SECONDS
            async with _slot_within(seconds, slots, tenant, "reads" if is_read else "writes"):
                yield


@asynccontextmanager
async def _slot_within(
    seconds: float, slots: FairSemaphore, tenant: Hashable, what: str
) -> AsyncIterator[None]:
    """Wait for a slot, for so many seconds at most, and hold it inside the context."""
    try:
        async with acquire_within(seconds, slots.slot(tenant)):
            yield
    except TimeoutError as error:
        raise StoreUnavailableError(f"too many {what} at once") from error
