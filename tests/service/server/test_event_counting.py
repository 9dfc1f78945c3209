"""One process of a service prepares the counts of the event log."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from indexing.errors import StoreUnavailableError
from indexing.store.sqlite.store import SqliteStore
from indexing.yielding import GoesOn
from service.server import event_counting
from service.server.event_counting import LEASE_FOR, EventCounting
from tests.builders import WIDGETS, make_event
from tests.new_stores import open_new_store
from tests.service.front_door import Clock
from tests.service.processes import TIMEOUT, Start


async def test_one_process_refreshes_until_its_lease_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[datetime] = []
    works = True

    async def refresh(_store: SqliteStore, now: datetime, _goes_on: GoesOn) -> int:
        asked.append(now)
        if not works:
            raise StoreUnavailableError("later")
        return 1

    monkeypatch.setattr(SqliteStore, "refresh_event_counts", refresh)
    store = await open_new_store(tmp_path)
    clock = Clock()
    first, second = (EventCounting(store, clock=clock) for _ in range(2))
    for each in (first, second, first):
        await each.refresh()
    assert asked == [clock.now, clock.now]
    works = False
    with pytest.raises(StoreUnavailableError):
        await first.refresh()
    await second.refresh()
    works = True
    clock.now += LEASE_FOR - timedelta(seconds=1)
    await second.refresh()
    assert len(asked) == 3
    clock.now += timedelta(seconds=1)
    await second.refresh()
    await first.refresh()
    assert asked[3:] == [clock.now]
    await store.close()


async def test_one_process_refreshes_after_the_clock_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed: list[EventCounting] = []

    async def refresh(_store: SqliteStore, _now: datetime, _goes_on: GoesOn) -> int:
        refreshed.append(looking)
        return 0

    monkeypatch.setattr(SqliteStore, "refresh_event_counts", refresh)
    store = await open_new_store(tmp_path)
    clock = Clock()
    first, second = (EventCounting(store, clock=clock) for _ in range(2))
    for looking in (first, second):
        await looking.refresh()
    clock.now -= timedelta(hours=1)
    # The lease of the first one lasts for so long that it must come from a wrong clock.
    for looking in (second, first, second):
        await looking.refresh()
    assert refreshed == [first, second, second]
    await store.close()


async def test_frequent_refreshes_rarely_write_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_new_store(tmp_path)
    hold, held = store.hold_lease, list[datetime]()

    async def noting(name: str, owner: str, now: datetime, until: datetime) -> bool:
        held.append(now)
        return await hold(name, owner, now, until)

    monkeypatch.setattr(store, "hold_lease", noting)
    clock = Clock()
    began = clock.now
    counting = EventCounting(store, clock=clock)
    for _ in range(9):
        await counting.refresh()
        clock.now += LEASE_FOR / 8
    assert held == [began, began + LEASE_FOR / 2, began + LEASE_FOR]
    await store.close()


async def test_another_process_takes_over_when_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: asyncio.Queue[datetime] = asyncio.Queue()

    async def refresh(_store: SqliteStore, now: datetime, _goes_on: GoesOn) -> int:
        asked.put_nowait(now)
        raise StoreUnavailableError("later")

    monkeypatch.setattr(SqliteStore, "refresh_event_counts", refresh)
    store = await open_new_store(tmp_path)
    for _ in range(2):
        running = asyncio.create_task(EventCounting(store, clock=Clock()).run())
        await asyncio.wait_for(asked.get(), TIMEOUT)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await store.close()


async def test_a_process_goes_on_after_an_unexpected_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_counting, "PAUSE_SECONDS", 0.001)
    asked: asyncio.Queue[datetime] = asyncio.Queue()

    async def refresh(_store: SqliteStore, now: datetime, _goes_on: GoesOn) -> int:
        asked.put_nowait(now)
        raise ArithmeticError("a mistake")

    monkeypatch.setattr(SqliteStore, "refresh_event_counts", refresh)
    store = await open_new_store(tmp_path)
    running = asyncio.create_task(EventCounting(store, clock=Clock()).run())
    async with asyncio.timeout(TIMEOUT):
        for _ in range(2):
            await asked.get()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert "unhandled error in the counting of events" in caplog.text
    assert "a mistake" in caplog.text
    await store.close()


async def test_a_long_refresh_keeps_its_lease_and_ends_once_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = await open_new_store(tmp_path)
    first, second = (EventCounting(store, clock=clock) for _ in range(2))
    answers: list[bool] = []
    began = 0

    async def refresh(_store: SqliteStore, _now: datetime, goes_on: GoesOn) -> int:
        nonlocal began
        began += 1
        if began > 1:
            return 0
        for share in (0.6, 0.6, 2.0):
            clock.now += LEASE_FOR * share
            if share > 1:
                # It has taken too long to renew the lease, and another process has it.
                await second.refresh()
            answers.append(await goes_on())
            await second.refresh()
        return 0

    monkeypatch.setattr(SqliteStore, "refresh_event_counts", refresh)
    await first.refresh()
    assert answers == [True, True, False]
    assert began == 3
    await store.close()


async def test_a_service_over_the_embedded_store_prepares_days(
    tmp_path: Path, start: Start
) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(number, pull_request=7) for number in range(300)])
    await store.close()
    service = start()
    assert service.next_line("days of the event log counted")["days"] == 1
    assert service.stop() == 0
