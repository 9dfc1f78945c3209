"""The counts of the event log: equal to counting its rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing.models.event_aggregates import choose_bars
from indexing.models.events import EventQuery, Outcome, StoredEvent
from indexing.names import RepositoryName
from indexing.store.elasticsearch import (
    event_query,
    event_tables,
    event_top_values,
    event_whole_days,
)
from indexing.store.interface import Store
from indexing.store.sqlite import event_days as sqlite_event_days
from tests.builders import GADGETS, NOON, WIDGETS, after, make_event
from tests.contracts.aggregating import check, write

KINDS = ("action.merge", "action.rebase", "action.squash")
TRIGGERS = ("rule", "Rule", "", "ünïcode 🧪", "\uffff", "t" * 255, "t" * 256)
BASES = (None, "main", "release")
# Two and a half days around midnight, so that whole days and hours lie in it and beside it.
START, END = after(hours=-30), after(hours=31)

moments = st.integers(0, 61 * 3600 * 1_000_000).map(
    lambda microseconds: START + timedelta(microseconds=microseconds)
)
# Whole hours and days are where kept counts begin and end.
bounds = moments | st.integers(0, 61).map(lambda hours: START + timedelta(hours=hours))
events = st.builds(
    make_event,
    st.integers(0, 1_000),
    moments,
    event_type=st.sampled_from(KINDS),
    pull_request=st.none() | st.integers(1, 6),
    base_ref=st.sampled_from(BASES),
    trigger=st.sampled_from(TRIGGERS),
    outcome=st.sampled_from(Outcome),
)


def some(values: Iterable[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.just(()) | st.lists(st.sampled_from([*values]), max_size=3).map(tuple)


filters = st.fixed_dictionaries(
    {
        "pull_requests": some(range(1, 7)),
        "base_ref": st.sampled_from(BASES),
        "event_types": some(KINDS),
        "triggers": some(TRIGGERS),
        "outcomes": some(Outcome),
        "event_types_excluded": some(KINDS),
        "triggers_excluded": some(TRIGGERS),
        "outcomes_excluded": some(Outcome),
        "pull_requests_excluded": some(range(1, 7)),
    }
)

# What the examples of a property have written so far.
known: list[StoredEvent] = []


def limit_values(monkeypatch: pytest.MonkeyPatch, most: int, of_a_shard: int, a_page: int) -> None:
    """Let Elasticsearch add up and merge fewer values of a facet than it does."""
    monkeypatch.setattr(event_query, "_MOST_VALUES", most)
    monkeypatch.setattr(event_top_values, "_OF_A_SHARD", of_a_shard)
    monkeypatch.setattr(event_top_values, "_A_PAGE", a_page)


@pytest.mark.parametrize("most_values", [10_000, 3])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(events, max_size=40),
    st.booleans(),
    st.lists(st.tuples(st.just({}) | filters, bounds, bounds), max_size=6),
)
async def test_the_counts_are_those_of_the_walked_rows(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    most_values: int,
    batch: list[StoredEvent],
    are_prepared: bool,
    asked: list[tuple[dict[str, Any], datetime, datetime]],
) -> None:
    limit_values(monkeypatch, most_values, of_a_shard=most_values, a_page=2)
    known.extend(each for each in batch if each.key not in {k.key for k in known})
    await write(store, batch)
    if are_prepared:
        await store.refresh_event_counts(datetime.now(UTC))
    for filters_, one, other in asked:
        query = EventQuery(WIDGETS, min(one, other), max(one, other), **filters_)
        await check(store, query, known)


@pytest.fixture(autouse=True)
def nothing_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    known.clear()
    # Both stores prepare only logs and days that are larger than those of these tests.
    monkeypatch.setattr(sqlite_event_days, "WORTHWHILE", 1)
    monkeypatch.setattr(sqlite_event_days, "GROWN", 2)
    monkeypatch.setattr(event_whole_days, "WORTHWHILE", 1)
    monkeypatch.setattr(event_whole_days, "_WORTHWHILE_MATCHES", 1)
    # So a day has combinations in several parts of its table.
    monkeypatch.setattr(event_tables, "_MOST_CODES", 4)


async def test_what_retention_dropped_is_not_counted(store: Store) -> None:
    rows = [
        make_event(n, START + timedelta(minutes=7 * n), pull_request=n % 9, trigger=f"t{n % 3}")
        for n in range(500)
    ]
    await write(store, rows)
    before = rows[210].key.received_at
    await store.prune(before, NOON)
    left = [row for row in rows if row.key.received_at >= before]
    await check(store, EventQuery(WIDGETS, START - timedelta(days=9), END), left)
    await write(store, rows[:50])
    await check(store, EventQuery(WIDGETS, START - timedelta(days=9), END), [*rows[:50], *left])


async def test_an_event_that_is_written_again_is_counted_once(store: Store) -> None:
    rows = [make_event(n, after(hours=n), pull_request=n % 3) for n in range(20)]
    conflict = make_event(3, after(hours=3), event_type=KINDS[1], trigger="another")
    await write(store, [*rows[:10], *rows[5:10], conflict])
    await write(store, [*rows, conflict])
    await check(store, EventQuery(WIDGETS, START, END), rows)


async def test_a_facet_has_its_hundred_most_frequent_values(store: Store) -> None:
    rows = [
        make_event(n, START + timedelta(hours=n % 60), pull_request=n % 150, trigger=f"t{n % 130}")
        for n in range(400)
    ]
    await write(store, rows)
    await check(store, EventQuery(WIDGETS, START, END), rows)
    await check(store, EventQuery(WIDGETS, START, END, triggers_excluded=("t1",)), rows)


@pytest.mark.parametrize("of_a_shard", [100, 240, 1_000])
@pytest.mark.parametrize("start", [START, NOON], ids=["of two months", "of one month"])
@pytest.mark.parametrize("are_prepared", [True, False], ids=["prepared", "not prepared"])
async def test_the_hundredth_value_is_exact_however_many_are_as_frequent(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    of_a_shard: int,
    start: datetime,
    are_prepared: bool,
) -> None:
    limit_values(monkeypatch, most=30, of_a_shard=of_a_shard, a_page=40)
    # Two or three events of each pull request, most of them in both months.
    rows = [
        make_event(
            n,
            START + timedelta(minutes=5 * n),
            event_type=KINDS[n % 3],
            pull_request=1 + n * 7 % 250,
            base_ref="main" if n % 4 else "release",
            trigger=f"t{n % 130}",
        )
        for n in range(700)
    ]
    await write(store, rows)
    if are_prepared:
        await store.refresh_event_counts(datetime.now(UTC))
    for filters_ in (
        {},
        {"base_ref": "main"},
        {"event_types": KINDS[:2], "triggers_excluded": ("t1", "t2")},
        {"base_ref": "main", "event_types_excluded": KINDS[:1], "pull_requests_excluded": (8,)},
    ):
        query = EventQuery(WIDGETS, start, END, **filters_)
        await check(store, query, rows)
        # A process remembers some of the counts.
        await check(store, query, rows)


async def test_events_of_many_years_are_counted(store: Store) -> None:
    rows = [make_event(n, NOON.replace(year=2001 + n, month=n % 12 + 1)) for n in range(25)]
    await write(store, rows)
    first, last = datetime.min.replace(tzinfo=NOON.tzinfo), datetime.max.replace(tzinfo=NOON.tzinfo)
    await check(store, EventQuery(WIDGETS, first, last), rows)
    await check(store, EventQuery(WIDGETS, NOON, NOON), rows)


async def test_another_repository_is_not_counted(store: Store) -> None:
    await write(store, [make_event(1), make_event(1, repository=GADGETS), make_event(2)])
    bars = choose_bars(START, END)
    for name, total in ((GADGETS, 1), (WIDGETS, 2), (RepositoryName("no", "body"), 0)):
        found = await store.aggregate_events(EventQuery(name, START, END), bars)
        assert (found.total, sum(found.histogram)) == (total, total)
