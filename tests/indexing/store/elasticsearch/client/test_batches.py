"""Calls that begin at about the same time share a batch, and each gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client.batches import Batches
from tests.waiting import let_run

# Longer than any test takes.
NEVER = 60.0


class Doubling:
    """Doubles each number, a batch at a time, once `go` is set; refuses negative ones."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.cancelled = 0
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def work(self, numbers: Sequence[int]) -> list[int | StoreError]:
        self.batches.append(list(numbers))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return [StoreError(f"{n} is refused") if n < 0 else 2 * n for n in numbers]


async def start(
    batches: Batches[int, int], *numbers: int, kind: Hashable = None
) -> list[asyncio.Task[int]]:
    calls = [asyncio.create_task(batches.run(kind, number)) for number in numbers]
    await let_run()
    return calls


async def test_calls_that_begin_together_are_one_batch() -> None:
    doubling = Doubling()
    doubling.go.set()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = [asyncio.create_task(batches.run(None, number)) for number in (1, 2, 3)]
    assert await asyncio.gather(*calls) == [2, 4, 6]
    assert doubling.batches == [[1, 2, 3]]


async def test_no_call_waits_for_a_single_earlier_batch() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = [*await start(batches, 1), *await start(batches, 2, 3)]
    assert doubling.batches == [[1], [2, 3]]
    doubling.go.set()
    assert await asyncio.gather(*calls) == [2, 4, 6]


async def test_calls_share_a_batch_while_two_are_in_progress() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = [call for number in range(6) for call in await start(batches, number)]
    assert doubling.batches == [[0], [1]]
    doubling.go.set()
    assert await asyncio.gather(*calls) == [0, 2, 4, 6, 8, 10]
    assert doubling.batches == [[0], [1], [2, 3, 4, 5]]


async def test_a_failure_of_a_batch_starts_the_next_one() -> None:
    doubling = Doubling()
    doubling.failure = StoreUnavailableError("gone")
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = [call for number in range(3) for call in await start(batches, number)]
    doubling.go.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError] * 3
    assert doubling.batches == [[0], [1], [2]]


async def test_calls_wait_for_batches_of_their_kind_only() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    for number in range(3):
        await start(batches, number, kind="slow")
    await start(batches, 3, kind="other")
    assert doubling.batches == [[0], [1], [3]]


async def test_a_batch_that_is_full_waits_for_none() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=2, hold=NEVER)
    for number in range(5):
        await start(batches, number)
    assert doubling.batches == [[0], [1], [2, 3]]


async def test_calls_wait_for_batches_that_hang_for_a_moment_only() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=0.01)
    for number in range(4):
        await start(batches, number)
    async with asyncio.timeout(10):
        while len(doubling.batches) < 3:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
    assert doubling.batches == [[0], [1], [2, 3]]


async def test_calls_of_different_kinds_share_no_batch() -> None:
    doubling = Doubling()
    doubling.go.set()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    assert await asyncio.gather(*(batches.run(n % 2, n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert sorted(doubling.batches) == [[0, 2, 4], [1, 3]]


async def test_a_batch_has_no_more_than_its_limit() -> None:
    doubling = Doubling()
    doubling.go.set()
    batches = Batches(doubling.work, most=2, hold=NEVER)
    calls = await start(batches, *range(5))
    assert await asyncio.gather(*calls) == [0, 2, 4, 6, 8]
    assert doubling.batches == [[0, 1], [2, 3], [4]]


async def test_the_error_of_one_call_leaves_the_others() -> None:
    doubling = Doubling()
    doubling.go.set()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    one, refused, other = await start(batches, 1, -1, 2)
    assert await one == 2
    assert await other == 4
    with pytest.raises(StoreError, match="-1 is refused"):
        await refused


async def test_a_failure_of_a_batch_goes_to_all_of_its_calls_only() -> None:
    doubling = Doubling()
    doubling.go.set()
    doubling.failure = StoreUnavailableError("gone")
    batches = Batches(doubling.work, most=10, hold=NEVER)
    for call in await start(batches, 1, 2):
        with pytest.raises(StoreUnavailableError):
            await call
    doubling.failure = None
    assert await batches.run(None, 3) == 6


async def test_a_cancelled_call_leaves_the_others() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    one, other = await start(batches, 1, 2)
    one.cancel()
    await let_run()
    doubling.go.set()
    assert await other == 4
    assert one.cancelled()
    assert doubling.cancelled == 0


async def test_work_that_nobody_waits_for_is_cancelled() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = await start(batches, 1, 2)
    for call in calls:
        call.cancel()
    await let_run()
    assert doubling.cancelled == 1


async def test_calls_that_are_cancelled_before_their_batch_begins_send_nothing() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    call = asyncio.create_task(batches.run(None, 1))
    await asyncio.sleep(0)
    call.cancel()
    await let_run()
    assert doubling.batches == []
    doubling.go.set()
    assert await batches.run(None, 2) == 4


async def test_held_calls_that_are_cancelled_are_not_sent() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    one, other, cancelled, held = [
        call for number in range(4) for call in await start(batches, number)
    ]
    cancelled.cancel()
    await let_run()
    doubling.go.set()
    assert [await one, await other, await held] == [0, 2, 6]
    assert doubling.batches == [[0], [1], [3]]


async def test_a_batch_that_is_cancelled_starts_the_held_one() -> None:
    doubling = Doubling()
    batches = Batches(doubling.work, most=10, hold=NEVER)
    calls = [call for number in range(3) for call in await start(batches, number)]
    calls[0].cancel()
    await let_run()
    assert doubling.batches == [[0], [1], [2]]
    doubling.go.set()
    assert await asyncio.gather(*calls[1:]) == [2, 4]
