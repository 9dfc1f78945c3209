"""A flood waits for itself: other tenants wait for only a few of its requests."""

from __future__ import annotations

import asyncio

import pytest

from indexing.fairness import TenantSemaphores, take_within


async def iterations() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("width", [1, 3])
async def test_a_flood_leaves_room_for_who_comes_later(width: int) -> None:
    semaphores, common, order = TenantSemaphores(width), asyncio.Semaphore(0), []

    async def work(tenant: str) -> None:
        async with semaphores.take(tenant), common:
            order.append(tenant)

    tasks = [asyncio.create_task(work("flood")) for _ in range(20)]
    await iterations()
    tasks += [asyncio.create_task(work(tenant)) for tenant in ("quiet", "other")]
    await iterations()
    common.release()
    await asyncio.gather(*tasks)
    assert {*order[width : width + 2]} == {"quiet", "other"}
    assert len(semaphores) == 0


async def test_who_gives_up_waiting_leaves_nothing() -> None:
    semaphores, entered = TenantSemaphores(1), asyncio.Event()

    async def work() -> None:
        async with semaphores.take("one"):
            entered.set()
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(work()) for _ in range(3)]
    await entered.wait()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)
    assert len(semaphores) == 0
    async with semaphores.take("one"):
        assert len(semaphores) == 1


async def test_there_is_a_time_for_which_one_waits() -> None:
    semaphores = TenantSemaphores(1)
    async with semaphores.take("one"):
        with pytest.raises(TimeoutError):
            async with take_within(0.01, semaphores.take("one")):
                raise AssertionError("there was no room")
    assert len(semaphores) == 0
    async with take_within(0.01, semaphores.take("one")):
        # It may run as long as it needs: only waiting is limited.
        await asyncio.sleep(0.02)
