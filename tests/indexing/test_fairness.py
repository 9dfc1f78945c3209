"""Tenants are served round robin, whatever each of them sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from indexing.fairness import FairSemaphore, acquire_within
from tests.waiting import let_run


async def test_a_flood_and_a_later_tenant_are_served_round_robin() -> None:
    slots, order = FairSemaphore(1), []
    held = asyncio.Event()

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            await held.wait()
            order.append(tenant)

    tasks = [asyncio.create_task(work("flood")) for _ in range(20)]
    await let_run()
    tasks += [asyncio.create_task(work(tenant)) for tenant in ("quiet", "quiet", "other")]
    await let_run()
    held.set()
    await asyncio.gather(*tasks)
    # The first had a slot before the others arrived; the second was already waiting.
    assert order[:7] == ["flood", "flood", "quiet", "other", "flood", "quiet", "flood"]


async def test_one_tenant_is_served_in_the_order_of_its_calls() -> None:
    slots, order = FairSemaphore(1), []

    async def work(number: int) -> None:
        async with slots.slot("one"):
            order.append(number)

    async with slots.slot("other"):
        tasks = [asyncio.create_task(work(number)) for number in range(4)]
        await let_run()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]


async def test_a_tenant_with_its_whole_share_holds_up_no_other() -> None:
    slots = FairSemaphore(2, 1)
    entered = asyncio.Event()

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            if tenant == "quiet":
                entered.set()

    async with slots.slot("flood"):
        async with slots.slot("other"):
            tasks = [asyncio.create_task(work(tenant)) for tenant in ("flood", "quiet")]
            await let_run()
            assert not entered.is_set()
        await let_run()
        assert entered.is_set()
    await asyncio.gather(*tasks)


async def test_nobody_in_particular_is_a_tenant_too() -> None:
    slots = FairSemaphore(1)
    async with acquire_within(60, slots.slot(None)):
        pass


async def test_one_tenant_has_no_more_than_its_share() -> None:
    slots, inside = FairSemaphore(4, 2), []
    held = asyncio.Event()

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            inside.append(tenant)
            await held.wait()

    tasks = [asyncio.create_task(work("flood")) for _ in range(5)]
    await let_run()
    assert inside == ["flood"] * 2
    tasks += [asyncio.create_task(work(tenant)) for tenant in ("a", "b", "c")]
    await let_run()
    assert inside == ["flood"] * 2 + ["a", "b"]
    held.set()
    await asyncio.gather(*tasks)
    assert sorted(inside) == ["a", "b", "c"] + ["flood"] * 5


async def test_a_waiter_that_gives_up_leaves_nothing_behind() -> None:
    slots = FairSemaphore(1)
    with pytest.raises(TimeoutError):
        async with slots.slot("one"), acquire_within(0.01, slots.slot("one")):
            raise AssertionError
    async with acquire_within(60, slots.slot("one")):
        pass
    # Tenants come and go, and must not take memory for ever.
    assert not slots._running
    assert not slots._waiting


async def test_the_time_is_for_all_slots_together() -> None:
    @asynccontextmanager
    async def late() -> AsyncIterator[None]:
        await asyncio.sleep(0.03)
        yield

    with pytest.raises(TimeoutError):
        async with acquire_within(0.05, late(), late()):
            raise AssertionError


async def test_only_waiting_is_limited_in_time() -> None:
    slots = FairSemaphore(1)
    async with acquire_within(0.01, slots.slot("one")):
        await asyncio.sleep(0.02)


async def test_a_slot_that_comes_as_its_waiter_goes_away_is_not_lost() -> None:
    slots = FairSemaphore(1)

    async def work() -> None:
        async with slots.slot("one"):
            pass

    async with slots.slot("two"):
        waiter = asyncio.create_task(work())
        await let_run()
    # The slot already belongs to the waiter, though it has not run yet.
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    async with acquire_within(60, slots.slot("two")):
        pass


async def test_a_cancelled_waiter_is_passed_over() -> None:
    slots = FairSemaphore(1)
    entered = asyncio.Event()

    async def work() -> None:
        async with slots.slot("one"):
            entered.set()

    async with slots.slot("two"):
        first, second = asyncio.create_task(work()), asyncio.create_task(work())
        await let_run()
        first.cancel()
    await second
    assert entered.is_set()
    assert first.cancelled()
