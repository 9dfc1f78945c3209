"""When the embedded store makes the columns of a day, and that they never change a count."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indexing.models.events import EventQuery, Outcome, StoredEvent
from indexing.store.sqlite import event_days
from indexing.store.sqlite.store import SqliteStore
from indexing.timestamps import to_microseconds
from tests.builders import GADGETS, NOON, WIDGETS, make_event
from tests.contracts.aggregating import check, write

DAY = timedelta(days=1)
FIRST = datetime(2026, 9, 1, tzinfo=UTC)
LATER = NOON + 9 * DAY
WHOLE = EventQuery(WIDGETS, FIRST - DAY, FIRST + 4 * DAY)
# The ends of the second are within a day, an hour and a minute.
QUERIES = (
    WHOLE,
    replace(WHOLE, received_from=NOON + timedelta(minutes=7), received_to=LATER),
    replace(WHOLE, base_ref="main"),
    replace(WHOLE, outcomes=(Outcome.SUCCESS,), triggers_excluded=("t1",)),
    replace(WHOLE, event_types_excluded=("action.merge",), pull_requests_excluded=(3,)),
)


def make_events(count: int, start: datetime = FIRST, first: int = 0) -> list[StoredEvent]:
    """Events that are spread over a day."""
    return [
        make_event(
            first + n,
            start + n * DAY / count,
            event_type=("action.merge", "action.rebase")[n % 2],
            pull_request=n % 9 or None,
            base_ref=("main", "release", None)[n % 3],
            trigger=f"t{n % 4}",
            outcome=tuple(Outcome)[n % 3],
        )
        for n in range(count)
    ]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "store.db")
    yield opened
    await opened.close()


async def check_all(store: SqliteStore, rows: Iterable[StoredEvent]) -> None:
    rows = list(rows)
    for query in QUERIES:
        await check(store, query, rows)


def stored_days(tmp_path: Path) -> Sequence[tuple[int, ...]]:
    """The number of events of each day, and of those in its columns."""
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        return connection.execute(
            "SELECT events, counted FROM event_days ORDER BY repository_id, start"
        ).fetchall()


async def test_large_days_that_have_ended_are_prepared_once(
    store: SqliteStore, tmp_path: Path
) -> None:
    large, small = make_events(300), make_events(255, FIRST + DAY, 1_000)
    today = make_events(300, FIRST + 2 * DAY, 2_000)
    await write(store, [*large, *small, *today])
    now = FIRST + 2 * DAY
    assert await store.refresh_event_counts(now) == 1
    assert stored_days(tmp_path) == [(300, 300), (255, 0), (300, 0)]
    assert await store.refresh_event_counts(now) == 0
    await check_all(store, [*large, *small, *today])
    late = make_event(5_000, FIRST, pull_request=7)
    await write(store, [late])
    await check_all(store, [*large, *small, *today, late])
    assert await store.refresh_event_counts(now + DAY) == 2
    assert stored_days(tmp_path) == [(301, 301), (255, 0), (300, 300)]
    await check_all(store, [*large, *small, *today, late])


async def test_a_day_that_goes_on_is_prepared_again_when_it_has_grown(
    store: SqliteStore, tmp_path: Path
) -> None:
    rows = make_events(2_000)
    await write(store, rows[::2])
    assert await store.refresh_event_counts(NOON) == 0
    await write(store, rows[1::4])
    assert await store.refresh_event_counts(NOON) == 1
    await write(store, rows[3::4])
    assert await store.refresh_event_counts(NOON) == 0
    assert stored_days(tmp_path) == [(2_000, 1_500)]
    await check_all(store, rows)


async def test_events_of_other_days_and_logs_that_arrive_later_are_not_counted(
    store: SqliteStore,
) -> None:
    rows = make_events(300)
    await write(store, rows)
    await store.refresh_event_counts(LATER)
    elsewhere = [replace(row, repository=GADGETS) for row in rows]
    others = make_events(30, FIRST + DAY, 1_000)
    late = make_events(30, first=2_000)
    await write(store, [*elsewhere, *others, *late])
    await check_all(store, [*rows, *others, *late])


async def test_retention_drops_what_was_prepared(store: SqliteStore, tmp_path: Path) -> None:
    rows = make_events(400)
    await write(store, rows)
    await store.refresh_event_counts(LATER)
    await store.prune(NOON, LATER)
    assert stored_days(tmp_path) == [(200, 0)]
    await check_all(store, rows[200:])
    # As many events as before, but other ones.
    await write(store, rows[:200])
    await check_all(store, rows)
    await store.prune(FIRST + DAY, LATER)
    assert stored_days(tmp_path) == []
    await check_all(store, [])


async def test_events_that_are_replaced_while_a_day_is_prepared_are_counted(
    store: SqliteStore, tmp_path: Path
) -> None:
    rows = make_events(400)
    others = [replace(row, pull_request=77) for row in rows[:200]]
    await write(store, rows)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        counted = event_days.count_day(connection, (1, to_microseconds(FIRST)))
        assert counted is not None
        await store.prune(NOON, LATER)
        await write(store, others)
        assert not event_days.store_day(connection, counted)
    assert stored_days(tmp_path) == [(400, 0)]
    await check_all(store, [*others, *rows[200:]])


async def test_events_that_arrive_while_a_day_is_prepared_are_counted(
    store: SqliteStore, tmp_path: Path
) -> None:
    rows = make_events(400)
    await write(store, rows[:300])
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        counted = event_days.count_day(connection, (1, to_microseconds(FIRST)))
        assert counted is not None
        await write(store, rows[300:])
        assert event_days.store_day(connection, counted)
    assert stored_days(tmp_path) == [(400, 300)]
    await check_all(store, rows)


async def test_a_day_with_too_many_values_is_counted_each_time(
    store: SqliteStore, tmp_path: Path
) -> None:
    rows = [
        make_event(n, FIRST + timedelta(seconds=n), pull_request=n % 5, base_ref=f"{n:0>255}")
        for n in range(1_200)
    ]
    await write(store, rows)
    await store.refresh_event_counts(LATER)
    assert stored_days(tmp_path) == [(1_200, 1_200)]
    assert await store.refresh_event_counts(LATER) == 0
    await check(store, WHOLE, rows)
    await check(store, replace(WHOLE, base_ref=rows[3].base_ref), rows)


async def test_preparation_ends_when_it_may_not_go_on(store: SqliteStore) -> None:
    await write(store, [*make_events(300), *make_events(300, FIRST + DAY, 1_000)])
    asked = 0

    async def once() -> bool:
        nonlocal asked
        asked += 1
        return asked == 1

    assert await store.refresh_event_counts(LATER, once) == 1
    assert await store.refresh_event_counts(LATER) == 1
