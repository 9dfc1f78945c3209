"""Concurrent calls share rounds, and each gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client.rounds import Rounds
from tests.waiting import let_run


class Rising:
    """Adds one to each number, a round at a time; refuses negative ones."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.allowed = asyncio.Semaphore(0)
        self.failure: Exception | None = None

    async def work(self, numbers: Sequence[int]) -> list[int | StoreError]:
        self.rounds.append(list(numbers))
        await self.allowed.acquire()
        if self.failure is not None:
            raise self.failure
        return [StoreError(f"{n} is refused") if n < 0 else n + 1 for n in numbers]


async def start(rounds: Rounds[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    calls = [asyncio.create_task(rounds.run(number, 1)) for number in numbers]
    await let_run()
    return calls


async def test_calls_that_arrive_during_a_round_make_the_next_one() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=1)
    calls = [*await start(rounds, 1), *await start(rounds, 2, 3, 4)]
    assert rising.rounds == [[1]]
    rising.allowed.release()
    rising.allowed.release()
    assert await asyncio.gather(*calls) == [2, 3, 4, 5]
    assert rising.rounds == [[1], [2, 3, 4]]


async def test_a_round_has_no_more_than_its_limit() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=2, at_once=1)
    calls = await start(rounds, *range(5))
    for _ in range(5):
        rising.allowed.release()
    assert await asyncio.gather(*calls) == [1, 2, 3, 4, 5]
    assert max(map(len, rising.rounds)) == 2


async def test_tenants_take_turns() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=2, at_once=1)
    current_tenant.set("flood")
    calls = await start(rounds, *range(1, 6))
    current_tenant.set("other")
    calls += await start(rounds, 7)
    assert rising.rounds == [[1, 2]]
    for _ in range(4):
        rising.allowed.release()
    assert await asyncio.gather(*calls) == [2, 3, 4, 5, 6, 8]
    assert rising.rounds == [[1, 2], [3, 7], [4, 5]]


async def test_no_more_rounds_than_allowed_run_at_once() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=2)
    calls = [call for number in range(4) for call in await start(rounds, number)]
    assert rising.rounds == [[0], [1]]
    for _ in range(3):
        rising.allowed.release()
    assert await asyncio.gather(*calls) == [1, 2, 3, 4]
    assert rising.rounds == [[0], [1], [2, 3]]


async def test_a_round_is_not_the_work_of_the_tenant_that_started_it() -> None:
    seen: list[object] = []

    async def work(numbers: Sequence[int]) -> Sequence[int]:
        seen.append(current_tenant.get())
        return numbers

    current_tenant.set("acme")
    await Rounds(work, most=1, at_once=1).run(1, 1)
    assert "acme" not in seen
    assert None not in seen


async def test_the_end_of_the_event_loop_leaves_no_call_waiting() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=1)
    (call,) = await start(rounds, 1)
    for worker in rounds._workers:
        worker.cancel()
    await asyncio.wait([call], timeout=20)
    assert call.cancelled()


async def test_a_call_larger_than_a_round_is_a_round_of_its_own() -> None:
    rising = Rising()
    rising.allowed.release()
    assert await Rounds(rising.work, most=2, at_once=1).run(1, size=9) == 2


async def test_the_error_of_one_call_is_its_own() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=1)
    calls = [*await start(rounds, 0), *await start(rounds, 1, -1, 2)]
    rising.allowed.release()
    rising.allowed.release()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [each for each in ended if isinstance(each, int)] == [1, 2, 3]
    assert isinstance(ended[2], StoreError)


@pytest.mark.parametrize("failure", [StoreUnavailableError("down"), ZeroDivisionError()])
async def test_a_failed_round_fails_its_calls_and_not_the_next_round(failure: Exception) -> None:
    rising = Rising()
    rising.failure = failure
    rounds = Rounds(rising.work, most=10, at_once=1)
    first = await start(rounds, 1)
    second = await start(rounds, 2)
    rising.allowed.release()
    with pytest.raises(type(failure)):
        await first[0]
    rising.failure = None
    rising.allowed.release()
    assert await second[0] == 3


async def test_a_cancelled_call_leaves_the_others() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=1)
    calls = [*await start(rounds, 1), *await start(rounds, 2, 3)]
    calls[0].cancel()
    calls[1].cancel()
    rising.allowed.release()
    rising.allowed.release()
    assert await calls[2] == 4
    assert rising.rounds == [[1], [3]]


async def test_a_call_right_after_the_last_round_is_not_forgotten() -> None:
    rising = Rising()
    rounds = Rounds(rising.work, most=10, at_once=1)
    for number in range(20):
        rising.allowed.release()
        # The worker of the round before may not be gone yet.
        assert await asyncio.wait_for(rounds.run(number, 1), 5) == number + 1
