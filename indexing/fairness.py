"""A fair queue: tenants take turns at something scarce, so that a flood waits behind itself.

One event loop only.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from itertools import islice


class FairQueue:
    """Slots that tenants share, of which one tenant has at most `slots_of_one` at a time.

    A free slot goes to the tenant that has waited longest since its last turn; within one tenant,
    first come, first served.
    """

    def __init__(self, slots: int, slots_of_one: int | None = None) -> None:
        self._free = slots
        self._slots_of_one = slots if slots_of_one is None else slots_of_one
        self._running: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, tenant: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and have it until the context is left."""
        await self._acquire(tenant)
        try:
            yield
        finally:
            self._release(tenant)

    async def _acquire(self, tenant: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._withdraw(tenant, turn)
            else:
                # The slot came just as the waiter went away.
                self._release(tenant)
            raise

    def _release(self, tenant: Hashable) -> None:
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._grant()

    def _grant(self) -> None:
        """Give the free slots to tenants in turn."""
        while self._free:
            # A tenant can be any value, None too.
            tenants = [*islice(filter(self._may_have_more, self._waiting), 1)]
            if not tenants:
                return
            (tenant,) = tenants
            queue = self._waiting.pop(tenant)
            turn = queue.popleft()
            if queue:
                # Behind all other tenants.
                self._waiting[tenant] = queue
            # A cancelled waiter may not have withdrawn yet.
            if not turn.cancelled():
                turn.set_result(None)
                self._running[tenant] += 1
                self._free -= 1

    def _may_have_more(self, tenant: Hashable) -> bool:
        return self._running[tenant] < self._slots_of_one

    def _withdraw(self, tenant: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]
