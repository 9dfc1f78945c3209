"""The fair queue under overload: the order of waiting requests, and which are refused."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from service.middleware import fair_queue as limits
from service.middleware.fair_queue import FairQueue, OverloadedError
from tests.service.processes import TIMEOUT


class Work:
    """Requests that run until `finish`, and the order in which they began."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        self.began: list[str] = []
        self.refused: Counter[str] = Counter()
        self.done = asyncio.Event()
        self.running = 0
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, tenant: str, count: int) -> list[asyncio.Task[None]]:
        made = [asyncio.create_task(self._answer(tenant)) for _ in range(count)]
        self.tasks += made
        return made

    async def _answer(self, tenant: str) -> None:
        if not self.queue.try_acquire(tenant):
            try:
                await self.queue.acquire(tenant)
            except OverloadedError:
                self.refused[tenant] += 1
                return
        self.running += 1
        try:
            self.began.append(tenant)
            await self.done.wait()
        finally:
            self.running -= 1
            self.queue.release(tenant)

    @property
    def undecided(self) -> bool:
        """Whether a request neither runs nor waits nor has ended."""
        pending = sum(not task.done() for task in self.tasks)
        return pending > self.running + self.queue.waiting

    async def decide(self) -> None:
        """Wait for the refusals, on whose timer a busy machine is late."""
        while self.undecided:
            await asyncio.wait(
                [task for task in self.tasks if not task.done()],
                timeout=limits.REFUSAL_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )

    async def finish(self) -> None:
        self.done.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture(autouse=True)
def _decide_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REFUSED_AT_ONCE", 10_000)
    # On a busy machine a slice of time could end before all have asked.
    monkeypatch.setattr(limits, "SLICE_SECONDS", 60.0)


async def run_all(work: Work) -> None:
    """Run the event loop until every request runs, waits or is refused, and nothing changes."""
    before = None
    while before != (before := (len(work.began), work.queue.waiting, sum(work.refused.values()))):
        for _ in range(20):
            await asyncio.sleep(0)
        await work.decide()


async def test_requests_within_the_capacity_start_at_once() -> None:
    work = Work()
    work.ask("one", limits.MAX_RUNNING_PER_TENANT)
    await run_all(work)
    assert len(work.began) == limits.MAX_RUNNING_PER_TENANT
    await work.finish()


async def test_slow_requests_of_one_tenant_leave_room_for_others() -> None:
    work = Work()
    work.ask("flood", limits.MAX_RUNNING + 50)
    await run_all(work)
    assert len(work.began) == limits.MAX_RUNNING_PER_TENANT
    work.ask("quiet", 1)
    await run_all(work)
    assert work.began[-1] == "quiet"
    await work.finish()
    assert len(work.began) == limits.MAX_RUNNING + 51


async def test_waiting_tenants_are_served_round_robin() -> None:
    work = Work()
    work.ask("a", limits.MAX_RUNNING_PER_TENANT)
    work.ask("b", limits.MAX_RUNNING - limits.MAX_RUNNING_PER_TENANT)
    await run_all(work)
    work.began.clear()
    work.ask("flood", 30)
    work.ask("quiet", 2)
    work.ask("still", 1)
    await run_all(work)
    assert work.began == []
    await work.finish()
    assert set(work.began[:3]) == {"flood", "quiet", "still"}
    assert set(work.began[3:5]) == {"flood", "quiet"}
    assert work.began[5:] == ["flood"] * 28


async def test_a_flood_is_refused_and_the_quiet_are_not() -> None:
    work = Work()
    work.ask("flood", limits.MAX_RUNNING_PER_TENANT + limits.MAX_QUEUE + 100)
    await run_all(work)
    refused = work.refused["flood"]
    assert refused >= 100
    for number in range(20):
        work.ask(f"quiet {number}", 2)
    await run_all(work)
    assert +work.refused == {"flood": refused}
    work.ask("flood", 10)
    await run_all(work)
    assert work.refused["flood"] == refused + 10
    await work.finish()


async def test_a_queue_that_turns_out_to_be_slow_is_no_reason_to_refuse_the_quiet() -> None:
    work = Work()
    work.ask("flood", limits.MAX_RUNNING_PER_TENANT)
    work.ask("other", limits.MAX_RUNNING - limits.MAX_RUNNING_PER_TENANT)
    await run_all(work)
    work.ask("flood", 400)
    await run_all(work)
    assert not work.refused
    # Requests that were queued while responses were quick now take longer than estimated.
    work.queue._interval = limits.MAX_WAIT_SECONDS
    work.ask("quiet", 2)
    work.ask("flood", 1)
    await run_all(work)
    assert work.refused == {"flood": 1}
    await work.finish()


async def test_the_queue_of_all_tenants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_QUEUE", 40)
    work = Work()
    for number in range(500):
        work.ask(f"tenant {number}", 1)
    await run_all(work)
    assert work.queue.waiting == 80
    assert sum(work.refused.values()) == 500 - limits.MAX_RUNNING - 80
    await work.finish()


async def test_a_cancelled_request_leaves_the_queue() -> None:
    work = Work()
    first = work.ask("one", limits.MAX_RUNNING_PER_TENANT + 5)
    await run_all(work)
    assert work.queue.waiting == 5
    for task in first[-5:]:
        task.cancel()
    await run_all(work)
    assert work.queue.waiting == 0
    first[0].cancel()
    work.ask("one", 1)
    await run_all(work)
    assert len(work.began) == limits.MAX_RUNNING_PER_TENANT + 1
    await work.finish()
    assert work.queue.try_acquire("one")


async def test_a_request_cancelled_as_it_gets_a_slot_gives_it_back() -> None:
    work = Work()
    tasks = work.ask("one", limits.MAX_RUNNING_PER_TENANT + 1)
    await run_all(work)
    # It gets a slot when the others end, and is cancelled before it can start.
    asyncio.get_running_loop().call_soon(work.done.set)
    for _ in range(10):
        await asyncio.sleep(0)
        if not work.queue.waiting:
            tasks[-1].cancel()
    await work.finish()
    work.began.clear()
    work.ask("one", limits.MAX_RUNNING_PER_TENANT)
    await work.finish()
    assert len(work.began) == limits.MAX_RUNNING_PER_TENANT


async def test_all_who_are_refused_learn_it_batch_by_batch_though_some_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REFUSED_AT_ONCE", 2)
    monkeypatch.setattr(limits, "MAX_RUNNING", 1)
    for bound in ("MIN_QUEUE", "MAX_QUEUE"):
        monkeypatch.setattr(limits, bound, 0)
    work = Work()
    work.ask("one", 1)
    refused = work.ask("one", 7)
    await asyncio.sleep(0)
    refused[0].cancel()
    _, pending = await asyncio.wait(refused, timeout=TIMEOUT)
    assert not pending
    assert work.refused == {"one": 6}
    await work.finish()


async def test_nobody_overtakes_a_request_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_RUNNING", 1)
    queue = FairQueue()
    assert queue.try_acquire("one")
    waiting = asyncio.create_task(queue.acquire("two"))
    await asyncio.sleep(0)
    queue.release("one")
    assert not queue.try_acquire("three")
    await waiting
    queue.release("two")
    assert queue.try_acquire("three")
