"""How the streams of events of a process share its reads of the store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import Arrival, ArrivalKey, Arrivals
from service.handlers.event_stream import ARRIVALS, EVENT_STREAMS
from service.streaming import hub
from service.streaming.event_ids import EventIds
from service.streaming.hub import Batch, Subscription
from tests.builders import GADGETS, WIDGETS, make_event
from tests.service.front_door import FrontDoor
from tests.service.handlers.opened_streams import STREAM, find_first_id, opened, settle
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("quick_polls")


async def test_streams_read_what_they_have_missed_one_at_a_time(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise those of one client would keep all others waiting.
    last_id = await find_first_id(door)
    await door.store.write_events([make_event(n) for n in range(20)])
    monkeypatch.setattr(hub, "EVENTS_AT_ONCE", 5)
    read, reading, most = door.reader.list_arrivals, 0, 0

    async def count(*about: Any) -> Any:
        nonlocal reading, most
        if isinstance(about[2], list):
            # The poll, which all streams share.
            return await read(*about)
        reading += 1
        most = max(most, reading)
        try:
            await asyncio.sleep(0)
            return await read(*about)
        finally:
            reading -= 1

    monkeypatch.setattr(door.reader, "list_arrivals", count)
    async with AsyncExitStack() as stack:
        resumed = [
            await stack.enter_async_context(opened(door, Last_Event_ID=last_id)) for _ in range(4)
        ]
        found = await asyncio.gather(*(each.ids(20) for each in resumed))
    assert found == [[*range(20)]] * 4
    assert most == 1


async def test_streams_go_on_when_the_store_was_away(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failed = door.reader.list_arrivals, asyncio.Event()
    away = False

    async def fail(*about: Any) -> Any:
        if away:
            failed.set()
            raise StoreUnavailableError("away")
        return await read(*about)

    monkeypatch.setattr(door.reader, "list_arrivals", fail)
    async with opened(door) as stream:
        await settle(door, 1)
        away = True
        await door.store.write_events([make_event(1)])
        await failed.wait()
        away = False
        assert await stream.ids(1) == [1]


async def test_a_stream_of_another_repository_misses_nothing_of_a_poll_in_progress(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, attach = door.reader.list_arrivals, door.app[ARRIVALS].attach
    attached, goes_on = asyncio.Event(), asyncio.Event()
    goes_on.set()

    async def hold(after: ArrivalKey, limit: int, repositories: Any) -> Any:
        if isinstance(repositories, list):
            await goes_on.wait()
        return await read(after, limit, repositories)

    def note(subscription: Subscription) -> bool:
        found = attach(subscription)
        attached.set()
        return found

    monkeypatch.setattr(door.reader, "list_arrivals", hold)
    await door.store.ensure_repository(GADGETS)
    async with opened(door):
        await settle(door, 1)
        goes_on.clear()
        await until(lambda: door.app[ARRIVALS]._reading is not None)
        monkeypatch.setattr(door.app[ARRIVALS], "attach", note)
        async with opened(door, target=STREAM.replace("widgets", "gadgets")) as stream:
            await attached.wait()
            await door.store.write_events([make_event(1, repository=GADGETS)])
            goes_on.set()
            assert await stream.ids(1) == [1]


async def test_a_clock_that_is_put_back_costs_a_slow_reader_no_queued_event() -> None:
    repository_id = derive_repository_id(WIDGETS)
    rows = [Arrival(ArrivalKey(at), repository_id, "x", b"{}") for at in (985, 996)]
    answers = [
        Arrivals((rows[0],), ArrivalKey(990), is_all=True),
        Arrivals((rows[1],), ArrivalKey(997), is_all=True),
        Arrivals((), ArrivalKey(992), is_all=False),
    ]
    position = ArrivalKey(980)

    async def read(after: ArrivalKey, *_: Any) -> Arrivals:
        nonlocal position
        position = after
        return answers.pop(0) if answers else Arrivals((), after, is_all=True)

    reader: Any = SimpleNamespace(list_arrivals=read)
    polled = hub.ArrivalHub(reader, EventIds(b"secret", "store"), lambda: False)
    stream = Subscription(WIDGETS, position, polled.unsent)
    assert polled.attach(stream)
    await until(lambda: not answers and position == ArrivalKey(992))
    assert [await stream.receive(1), await stream.receive(1)] == [
        hub.make_batch([row], polled.ids).text for row in rows
    ]
    await polled.close()


async def test_an_outage_of_the_store_is_one_warning_and_one_line_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger=hub.__name__)
    is_away, polls = True, 0

    async def read(after: ArrivalKey, *_: Any) -> Arrivals:
        nonlocal polls
        polls += 1
        if is_away:
            raise StoreUnavailableError("away")
        return Arrivals((), after, is_all=True)

    async def wait_for_three() -> None:
        aim = polls + 3
        await until(lambda: polls >= aim)

    reader: Any = SimpleNamespace(list_arrivals=read)
    polled = hub.ArrivalHub(reader, EventIds(b"secret", "store"), lambda: False)
    assert polled.attach(Subscription(WIDGETS, ArrivalKey(0), polled.unsent))
    for away in (True, False, True, False):
        is_away = away
        await wait_for_three()
    await polled.close()
    lines = [(each.levelno, each.getMessage()) for each in caplog.records]
    assert (
        lines
        == [
            (logging.WARNING, "streams wait for the store"),
            (logging.INFO, "streams go on"),
        ]
        * 2
    )


async def test_many_streams_cost_one_poll(door: FrontDoor) -> None:
    async with opened(door) as one:
        await settle(door, 1)
        others = [opened(door) for _ in range(20)]
        streams = [await each.__aenter__() for each in others]
        await settle(door, 21)
        before = door.app[ARRIVALS].polls
        await door.store.write_events([make_event(1)])
        for stream in (one, *streams):
            assert await stream.ids(1) == [1]
        rounds = door.app[ARRIVALS].polls - before
        # A poll each 20 ms over Elasticsearch, whatever the number of streams.
        assert rounds < 200
        for each in others:
            await each.__aexit__(None, None, None)
    await until(lambda: door.app[EVENT_STREAMS].open == 0)
    assert door.app[ARRIVALS]._subscriptions == {}


async def test_streams_are_woken_over_several_turns_of_the_event_loop(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other requests are answered in between.
    monkeypatch.setattr(hub, "STREAMS_AT_ONCE", 2)
    loop, turn, woken = asyncio.get_running_loop(), 0, []
    offer = Subscription.offer
    counting = loop.call_soon(lambda: None)

    def count() -> None:
        nonlocal turn, counting
        turn += 1
        counting = loop.call_soon(count)

    def record(subscription: Subscription, batch: Batch) -> None:
        woken.append(turn)
        offer(subscription, batch)

    monkeypatch.setattr(Subscription, "offer", record)
    position = await door.store.find_newest_arrival()
    unsent = door.app[ARRIVALS].unsent
    streams = [Subscription(WIDGETS, position, unsent) for _ in range(7)]
    assert all(door.app[ARRIVALS].attach(stream) for stream in streams)
    count()
    await door.store.write_events([make_event(1)])
    assert all(await asyncio.gather(*(stream.receive(20) for stream in streams)))
    counting.cancel()
    assert len(woken) >= 7
    assert max(Counter(woken).values()) <= 2
    for stream in streams:
        door.app[ARRIVALS].detach(stream)
