"""A fair queue of requests, with round robin between tenants and load shedding.

A process answers in time slices, between which it reads what else has arrived. A request that does
not fit into a slice waits in the queue of its tenant, and the queues are served round robin, so a
flood waits behind itself. A request that would wait too long is refused on arrival. A queue belongs
to one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final

# The most requests in progress, of which most wait for a store; and the most of one tenant, so that
# its slow requests leave room for others.
MAX_RUNNING: Final = 128
MAX_RUNNING_PER_TENANT: Final = 96

# Long enough for 64 cached requests that arrive at once.
SLICE_SECONDS: Final = 0.01
# Refusals are sent in batches: at most `REFUSED_AT_ONCE` every `REFUSAL_SECONDS`. One costs about
# 0.04 milliseconds, so refusing takes at most a fifth of the time, even if clients retry at once.
REFUSAL_SECONDS: Final = 0.02
REFUSED_AT_ONCE: Final = 100

# A request that would wait longer than this is refused on arrival; but the queue always has room
# for the jobs of one large build that start together.
MAX_WAIT_SECONDS: Final = 0.5
MIN_QUEUE: Final = 100
MAX_QUEUE: Final = 2_000
# The time from one request to the next: a first guess, over how long it is measured while requests
# wait, and the weight of a measurement.
_FIRST_GUESS_SECONDS: Final = 0.001
_MEASURED_SECONDS: Final = 0.1
_WEIGHT: Final = 0.3


class OverloadedError(Exception):
    """The queue of this tenant is full."""


class FairQueue:
    """The fair queue of one process."""

    def __init__(self) -> None:
        self._running: dict[Hashable, int] = {}
        self._count = 0
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._waiting = 0
        self._slice_began = 0.0
        self._in_slice = False
        # How many requests were refused.
        self.refused = 0
        self._refusals: deque[asyncio.Future[None]] = deque()
        self._interval = _FIRST_GUESS_SECONDS
        self._measured_from: float | None = None
        self._ended = 0

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting

    def try_acquire(self, tenant: Hashable) -> bool:
        """Take a slot if that needs no waiting; return whether it was taken."""
        if self._waiting or self._count >= MAX_RUNNING:
            return False
        if not self._in_slice:
            self._begin_slice()
        elif time.monotonic() - self._slice_began > SLICE_SECONDS:
            return False
        running = self._running.get(tenant, 0)
        if running >= MAX_RUNNING_PER_TENANT:
            return False
        self._running[tenant] = running + 1
        self._count += 1
        return True

    async def acquire(self, tenant: Hashable) -> None:
        """Wait for a slot.

        Raises:
            OverloadedError: the queue is full; raised with the next batch of refusals.
        """
        queue = self._queues.get(tenant)
        if self._is_full(len(queue or ())):
            self.refused += 1
            await self._wait_for_refusal()
            raise OverloadedError
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if queue is None:
            queue = self._queues[tenant] = deque()
        queue.append(slot)
        self._waiting += 1
        if not self._in_slice:
            self._begin_slice()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                # The slot came just as the waiter was cancelled.
                self.release(tenant)
            else:
                self._withdraw(tenant, slot)
            raise

    def release(self, tenant: Hashable) -> None:
        """Give a slot back."""
        self._count -= 1
        running = self._running[tenant] - 1
        if running:
            self._running[tenant] = running
        else:
            del self._running[tenant]
        if self._waiting:
            self._ended += 1
            if not self._in_slice:
                self._begin_slice()

    async def _wait_for_refusal(self) -> None:
        loop = asyncio.get_running_loop()
        refusal: asyncio.Future[None] = loop.create_future()
        if not self._refusals:
            loop.call_later(REFUSAL_SECONDS, self._refuse_some)
        self._refusals.append(refusal)
        await refusal

    def _refuse_some(self) -> None:
        for _ in range(min(REFUSED_AT_ONCE, len(self._refusals))):
            refusal = self._refusals.popleft()
            if not refusal.cancelled():
                refusal.set_result(None)
        if self._refusals:
            asyncio.get_running_loop().call_later(REFUSAL_SECONDS, self._refuse_some)

    def _is_full(self, own: int) -> bool:
        """Whether a tenant with `own` waiting requests has no room for another."""
        fits = min(max(MIN_QUEUE, int(MAX_WAIT_SECONDS / self._interval)), MAX_QUEUE)
        # Round robin: before the next request of this tenant, every other tenant is served once for
        # each request that this one has waiting, and once more. All their other requests come
        # later. A tenant without waiting requests may wait twice as long; only when there are many
        # such tenants is everybody refused.
        tenants = len(self._queues) + (own == 0)
        before = min(self._waiting, (own + 1) * tenants - 1)
        return before >= (fits if own else 2 * fits) or self._waiting >= 2 * MAX_QUEUE

    def _begin_slice(self) -> None:
        self._in_slice = True
        self._slice_began = time.monotonic()
        # It runs after the loop has read what arrived.
        asyncio.get_running_loop().call_soon(self._end_slice)

    def _end_slice(self) -> None:
        self._in_slice = False
        self._measure()
        fits = max(1, int(SLICE_SECONDS / self._interval))
        began = self._begin_some(fits)
        if began:
            self._begin_slice()

    def _begin_some(self, most: int) -> int:
        """Start at most `most` waiting requests, round robin, and return how many."""
        began = 0
        passed_over = 0
        while self._waiting and began < most and self._count < MAX_RUNNING:
            if passed_over >= len(self._queues):
                break
            tenant, queue = next(iter(self._queues.items()))
            self._queues.move_to_end(tenant)
            running = self._running.get(tenant, 0)
            if running >= MAX_RUNNING_PER_TENANT:
                passed_over += 1
                continue
            passed_over = 0
            slot = queue.popleft()
            if not queue:
                del self._queues[tenant]
            self._waiting -= 1
            if slot.cancelled():
                continue
            slot.set_result(None)
            self._running[tenant] = running + 1
            self._count += 1
            began += 1
        return began

    def _measure(self) -> None:
        """Measure the time from one request to the next, while some wait."""
        if not self._waiting:
            self._measured_from = None
            return
        now = time.monotonic()
        if self._measured_from is not None:
            if now - self._measured_from < _MEASURED_SECONDS:
                return
            interval = (now - self._measured_from) / max(1, self._ended)
            self._interval += _WEIGHT * (interval - self._interval)
        self._measured_from = now
        self._ended = 0

    def _withdraw(self, tenant: Hashable, slot: asyncio.Future[None]) -> None:
        queue = self._queues.get(tenant, ())
        # Its turn may have come between its cancellation and now: then it was dropped.
        if slot not in queue:
            return
        self._queues[tenant].remove(slot)
        if not self._queues[tenant]:
            del self._queues[tenant]
        self._waiting -= 1
