"""The cost of an event log page in steps of SQLite's virtual machine: no clock is read."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indexing.models.events import EventKey, EventQuery, Outcome, StoredEvent
from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from indexing.store.sqlite.events import list_events, write_events
from indexing.store.sqlite.repositories import ensure_repository
from indexing.store.sqlite.schema import ensure_schema
from tests.indexing.store.sqlite.steps import count_steps

REPOSITORY = RepositoryName("acme", "widgets")
START = datetime(2026, 11, 1, tzinfo=UTC)
COUNT = 5_000
STEP = timedelta(seconds=10)
ALL = EventQuery(REPOSITORY, START, START + COUNT * STEP)


def key_of(number: int) -> EventKey:
    return EventKey(START + number * STEP, number)


def event(number: int, **fields: Any) -> StoredEvent:
    """An event that differs from others in its key, and in these fields."""
    same = StoredEvent(
        REPOSITORY, key_of(number), "action.merge", 7, "main", "rule", Outcome.SUCCESS, b"{}"
    )
    return replace(same, **fields)


@pytest.fixture(scope="module")
def log() -> Iterator[sqlite3.Connection]:
    """A log of so many events, identical except for their keys."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    ensure_schema(connection)
    ensure_repository(connection, REPOSITORY)
    write_events(connection, [event(number) for number in range(COUNT)])
    yield connection
    connection.close()


def steps_of(
    connection: sqlite3.Connection,
    query: EventQuery,
    anchor: Anchor[EventKey],
    *,
    by_complement: bool = False,
) -> int:
    def read() -> None:
        assert list_events(connection, query, anchor, 10, by_complement=by_complement).rows

    return count_steps(connection, read)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("number", [COUNT - 20, COUNT // 2, 20])
@pytest.mark.parametrize(
    "query",
    [
        ALL,
        replace(ALL, event_types=("action.merge",)),
        replace(ALL, base_ref="main"),
        replace(ALL, pull_requests=(7,)),
        replace(ALL, triggers=("rule",)),
        replace(ALL, outcomes=(Outcome.SUCCESS,)),
        replace(ALL, event_types_excluded=("action.squash",)),
        replace(ALL, triggers_excluded=("person",)),
        replace(ALL, outcomes_excluded=(Outcome.FAILURE,)),
        replace(ALL, pull_requests_excluded=(8,)),
    ],
)
def test_a_page_costs_what_the_first_one_does_however_deep_it_lies(
    log: sqlite3.Connection, query: EventQuery, number: int, backward: bool
) -> None:
    first = steps_of(log, query, Anchor())
    assert steps_of(log, query, Anchor(key_of(number), backward)) < 3 * first


@pytest.mark.parametrize(
    "query",
    [replace(ALL, event_types_excluded=("common",)), replace(ALL, triggers_excluded=("t",))],
)
def test_rare_rows_among_many_that_are_left_out_cost_what_they_cost_alone(
    query: EventQuery,
) -> None:
    costs = {}
    for common in (200, 4_000):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        ensure_schema(connection)
        ensure_repository(connection, REPOSITORY)
        rare = range(0, common, common // 40)
        write_events(
            connection,
            [
                event(number, type="rare", trigger="x" * 300)
                if number in rare
                else event(number, type="common", trigger="t")
                for number in range(common)
            ],
        )
        costs[common] = steps_of(connection, query, Anchor(), by_complement=True)
        connection.close()
    assert costs[4_000] < 2 * costs[200]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("number", [999, 1_000, 1_001, 1_999, 2_000, 2_001])
def test_a_page_stays_within_the_range_wherever_its_key_lies(
    log: sqlite3.Connection, number: int, backward: bool
) -> None:
    low, high = 1_000, 2_000
    query = EventQuery(REPOSITORY, key_of(low).received_at, key_of(high).received_at)
    page = list_events(log, query, Anchor(key_of(number), backward), 10)
    within = range(low, high)
    nearest = (
        [n for n in within if n > number][:10][::-1]
        if backward
        else [n for n in within if n < number][::-1][:10]
    )
    assert [row.key.id for row in page.rows] == nearest


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"event_types": ("action.merge", "action.close")},
        {"outcomes_excluded": (Outcome.FAILURE,)},
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_a_page_of_large_events_reads_no_more_than_it_has(
    monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], *, backward: bool
) -> None:
    most, size = 1_000_000, 40_000
    for module in ("indexing.models.events", "indexing.store.sqlite.events"):
        monkeypatch.setattr(f"{module}.MOST_PAGE_BYTES", most)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        ensure_schema(connection)
        ensure_repository(connection, REPOSITORY)
        body = b'"%b"' % (b"x" * (size - 2))
        write_events(connection, [event(number, body=body) for number in range(100)])
        query = replace(ALL, **filters)
        tracemalloc.start()
        page = list_events(connection, query, Anchor(backward=backward), 100, by_complement=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    numbers = range(25) if backward else range(99, 74, -1)
    assert [row.id for row in page.rows] == ([*numbers][::-1] if backward else [*numbers])
    assert (page.has_previous, page.has_next) == (backward, not backward)
    # Not the bodies of a hundred events.
    assert peak < 3 * most
