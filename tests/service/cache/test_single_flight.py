"""Single flight: one read for all requests that wait for the same value."""

from __future__ import annotations

import asyncio

import pytest

from indexing.errors import StoreUnavailableError
from service.cache import session
from service.cache.session import SingleFlight
from tests.waiting import let_run


class Reading:
    """A read that waits until `go` is set."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        try:
            await self.go.wait()
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return self.begun


@pytest.fixture
async def reading() -> Reading:
    return Reading()


async def test_concurrent_requests_share_one_read(reading: Reading) -> None:
    single_flight = SingleFlight()
    asked = [asyncio.create_task(single_flight.share("a", reading)) for _ in range(500)]
    await let_run()
    reading.go.set()
    assert await asyncio.gather(*asked) == [1] * 500
    assert await single_flight.share("a", reading) == 2


async def test_different_names_are_read_separately(reading: Reading) -> None:
    single_flight = SingleFlight()
    reading.go.set()
    await asyncio.gather(single_flight.share("a", reading), single_flight.share("b", reading))
    assert reading.begun == 2


async def test_cancelling_one_waiter_does_not_fail_the_others(reading: Reading) -> None:
    single_flight = SingleFlight()
    first, second = (asyncio.create_task(single_flight.share("a", reading)) for _ in range(2))
    await let_run()
    first.cancel()
    await let_run()
    reading.go.set()
    assert await second == 1
    assert first.cancelled()


async def test_cancelling_a_waiter_as_the_read_ends_does_not_fail_the_others(
    reading: Reading,
) -> None:
    single_flight = SingleFlight()
    first, second = (asyncio.create_task(single_flight.share("a", reading)) for _ in range(2))
    await let_run()
    reading.go.set()
    await asyncio.sleep(0)
    # The read has ended, and no waiter has resumed.
    assert reading.ended == 1
    first.cancel()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await single_flight.share("a", reading) == 2


async def test_a_read_that_fails_once_all_waiters_are_cancelled_leaves_nothing_behind(
    reading: Reading,
) -> None:
    single_flight = SingleFlight()

    async def fail_late() -> int:
        try:
            return await reading()
        except asyncio.CancelledError:
            raise ValueError("no") from None

    asked = asyncio.create_task(single_flight.share("a", fail_late))
    await let_run()
    asked.cancel()
    await let_run()
    assert asked.cancelled()
    reading.go.set()
    assert await single_flight.share("a", reading) == 2


async def test_a_read_that_ran_out_of_the_time_of_its_own_request_fails_no_later_one(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    single_flight = SingleFlight()

    async def take_too_long() -> int:
        await reading()
        raise StoreUnavailableError("the time of the first request is over")

    first = asyncio.create_task(single_flight.share("a", take_too_long))
    await let_run()
    together = asyncio.create_task(single_flight.share("a", reading))
    await let_run()
    monkeypatch.setattr(session, "_EARLIER_SECONDS", -1.0)
    others = [asyncio.create_task(single_flight.share("a", reading)) for _ in range(3)]
    await let_run()
    reading.go.set()
    for failed in (first, together):
        with pytest.raises(StoreUnavailableError):
            await failed
    # They share the next one.
    assert await asyncio.gather(*others) == [2] * 3


async def test_a_read_without_waiters_is_cancelled(reading: Reading) -> None:
    single_flight = SingleFlight()
    asked = [asyncio.create_task(single_flight.share("a", reading)) for _ in range(3)]
    await let_run()
    for task in asked:
        task.cancel()
    later = asyncio.create_task(single_flight.share("a", reading))
    await let_run()
    assert (reading.begun, reading.ended) == (2, 1)
    reading.go.set()
    assert await later == 2


async def test_a_failure_reaches_all_waiters_and_is_not_cached(reading: Reading) -> None:
    single_flight = SingleFlight()
    reading.error = ValueError("no")
    asked = [asyncio.create_task(single_flight.share("a", reading)) for _ in range(3)]
    await let_run()
    reading.go.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError] * 3
    reading.error = None
    assert await single_flight.share("a", reading) == 2


async def test_requests_during_a_read_share_the_read_after_it(
    reading: Reading,
) -> None:
    single_flight = SingleFlight()
    first = asyncio.create_task(single_flight.share("a", reading, lambda _: False))
    await let_run()
    later = [
        asyncio.create_task(single_flight.share("a", reading, lambda _: False)) for _ in range(500)
    ]
    await let_run()
    assert reading.begun == 1
    reading.go.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 500


async def test_a_request_as_a_read_ends_gets_the_next_read() -> None:
    single_flight, asked, begun = SingleFlight(), asyncio.Event(), 0

    async def read() -> int:
        nonlocal begun
        begun += 1
        # A task that waits for this event resumes before the single flight notices that the read
        # ended.
        asked.set()
        return begun

    async def ask() -> int:
        await asked.wait()
        return await single_flight.share("a", read, lambda _: False)

    later = asyncio.create_task(ask())
    await asyncio.sleep(0)
    assert await single_flight.share("a", read) == 1
    assert (await later, begun) == (2, 2)
