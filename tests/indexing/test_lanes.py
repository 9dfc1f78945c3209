"""A flood waits behind itself; whoever asks one thing waits behind a little of each other."""

from __future__ import annotations

import asyncio

import pytest

from indexing.lanes import Lanes, take_within


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("width", [1, 3])
async def test_a_flood_leaves_room_for_who_comes_later(width: int) -> None:
    lanes, common, order = Lanes(width), asyncio.Semaphore(0), []

    async def work(asker: str) -> None:
        async with lanes.take(asker), common:
            order.append(asker)

    tasks = [asyncio.create_task(work("flood")) for _ in range(20)]
    await turns()
    tasks += [asyncio.create_task(work(asker)) for asker in ("quiet", "other")]
    await turns()
    common.release()
    await asyncio.gather(*tasks)
    assert {*order[width : width + 2]} == {"quiet", "other"}
    assert len(lanes) == 0


async def test_who_gives_up_waiting_leaves_nothing() -> None:
    lanes, entered = Lanes(1), asyncio.Event()

    async def work() -> None:
        async with lanes.take("one"):
            entered.set()
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(work()) for _ in range(3)]
    await entered.wait()
    for task in reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)
    assert len(lanes) == 0
    async with lanes.take("one"):
        assert len(lanes) == 1


async def test_there_is_a_time_for_which_one_waits() -> None:
    lanes = Lanes(1)
    async with lanes.take("one"):
        with pytest.raises(TimeoutError):
            async with take_within(0.01, lanes.take("one")):
                raise AssertionError("there was no room")
    assert len(lanes) == 0
    async with take_within(0.01, lanes.take("one")):
        # For as long as it takes: only waiting is bounded.
        await asyncio.sleep(0.02)
