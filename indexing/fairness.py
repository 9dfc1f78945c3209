"""Fair sharing of scarce resources between tenants: a flood of one tenant delays only itself.

Use it within one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Final

# The tenant of the current task; set by the code that serves several tenants.
current_tenant: Final[ContextVar[Hashable]] = ContextVar("current_tenant", default=None)


class FairSemaphore:
    """Slots shared by tenants; one tenant holds at most `slots_per_tenant` at a time.

    A free slot goes to the tenant that has waited longest since its last slot; within one tenant,
    first come, first served.
    """

    def __init__(self, slots: int, slots_per_tenant: int | None = None) -> None:
        self._free = slots
        self._slots_per_tenant = slots if slots_per_tenant is None else slots_per_tenant
        self._running: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: Hashable) -> AsyncIterator[None]:
        """Wait for a slot and hold it until the context exits."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release(tenant)

    def has_room(self, tenant: Hashable) -> bool:
        """Whether the tenant gets a slot at once."""
        return self._free > 0 and not self._waiting and self._may_have_more(tenant)

    async def _acquire(self, tenant: Hashable) -> None:
        if self.has_room(tenant):
            self._take(tenant)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        self._grant()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._withdraw(tenant, waiter)
            else:
                # The waiter got the slot just as it was cancelled.
                self._release(tenant)
            raise

    def _take(self, tenant: Hashable) -> None:
        self._free -= 1
        self._running[tenant] += 1

    def _release(self, tenant: Hashable) -> None:
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._grant()

    def _grant(self) -> None:
        """Grant the free slots to tenants, round robin."""
        while self._free:
            # A tenant can be any value, even None, so a default of None would be ambiguous.
            tenants = [*islice(filter(self._may_have_more, self._waiting), 1)]
            if not tenants:
                return
            (tenant,) = tenants
            queue = self._waiting.pop(tenant)
            waiter = queue.popleft()
            if queue:
                # The tenant goes behind all others.
                self._waiting[tenant] = queue
            # A cancelled waiter may not have withdrawn yet.
            if not waiter.cancelled():
                waiter.set_result(None)
                self._take(tenant)

    def _may_have_more(self, tenant: Hashable) -> bool:
        return self._running[tenant] < self._slots_per_tenant

    def _withdraw(self, tenant: Hashable, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiting[tenant]


@asynccontextmanager
async def acquire_within(
    seconds: float, *slots: AbstractAsyncContextManager[None]
) -> AsyncIterator[None]:
    """Wait for each of these slots in turn and hold all of them until the context exits.

    Raises:
        TimeoutError: the slots are not all granted within `seconds`.
    """
    async with AsyncExitStack() as acquired:
        async with asyncio.timeout(seconds):
            for slot in slots:
                await acquired.enter_async_context(slot)
        yield
