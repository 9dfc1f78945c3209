"""A process remembers the counts of past days that it has added up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from indexing.models.event_aggregates import EventAggregate, choose_bars
from indexing.models.events import EventQuery, Outcome
from indexing.store.elasticsearch import (
    event_days,
    event_whole_days,
)
from indexing.store.elasticsearch.event_sums import EventSums
from indexing.store.elasticsearch.event_whole_days import RememberedDays, WholeHours
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.facet_searches import Searches

pytestmark = pytest.mark.usefixtures("few_events_suffice")

DAY = timedelta(days=1)
MIDNIGHT = after(hours=-12)
ALL = EventQuery(WIDGETS, MIDNIGHT, MIDNIGHT + 3 * DAY)
HOUR = 3_600_000_000


@pytest.fixture
async def store(store: ElasticsearchStore) -> ElasticsearchStore:
    """A store with 72 events, an hour apart: 2 of 3 a success, each of one of seven requests."""
    await store.ensure_repository(WIDGETS)
    outcomes = (Outcome.FAILURE, Outcome.SUCCESS, Outcome.SUCCESS)
    events = [
        make_event(
            n, MIDNIGHT + n * timedelta(hours=1), pull_request=n % 7, outcome=outcomes[n % 3]
        )
        for n in range(72)
    ]
    await store.write_events(events)
    return store


@pytest.fixture
def searches(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> Searches:
    """Count from here on, not while the store is filled."""
    return Searches(monkeypatch)


async def count(store: ElasticsearchStore, query: EventQuery = ALL) -> EventAggregate:
    return await store.aggregate_events(query, choose_bars(query.received_from, query.received_to))


@pytest.mark.parametrize("are_made", [True, False], ids=["added up", "counted one by one"])
@pytest.mark.parametrize(
    ("query", "total"),
    [(ALL, 72), (replace(ALL, outcomes=(Outcome.SUCCESS,), pull_requests=(1, 2, 3)), 21)],
    ids=["all", "filtered"],
)
async def test_days_are_counted_again_only_if_they_have_changed(
    store: ElasticsearchStore,
    searches: Searches,
    query: EventQuery,
    total: int,
    are_made: bool,
) -> None:
    if are_made:
        await store.refresh_event_counts(datetime.now(UTC))
    first = await count(store, query)
    assert first.total == sum(first.histogram) == total
    counted = searches.facets
    assert await count(store, query) == first
    assert searches.facets == counted
    new = make_event(100, MIDNIGHT + DAY, pull_request=1, outcome=Outcome.SUCCESS)
    await store.write_events([new])
    for _ in range(2):
        found = await count(store, query)
        assert found.total == sum(found.histogram) == total + 1
        by_pull = {each.value: each.count for each in first.by_pull_request}
        by_pull[1] += 1
        assert {each.value: each.count for each in found.by_pull_request} == by_pull


async def test_each_query_and_range_has_counts_of_its_own(store: ElasticsearchStore) -> None:
    failures = replace(ALL, outcomes=(Outcome.FAILURE,))
    shorter = replace(ALL, received_to=MIDNIGHT + 2 * DAY)
    for _ in range(2):
        assert (await count(store)).total == 72
        assert (await count(store, failures)).total == 24
        assert (await count(store, shorter)).total == 48


async def test_the_ends_of_a_range_are_added_each_time(store: ElasticsearchStore) -> None:
    query = replace(ALL, received_from=MIDNIGHT - DAY / 4, received_to=MIDNIGHT + 2.5 * DAY)
    assert (await count(store, query)).total == 60
    await store.write_events([make_event(100, MIDNIGHT + 2.25 * DAY)])
    assert (await count(store, query)).total == 61


async def test_a_day_without_a_table_is_counted_only_until_it_has_one(
    store: ElasticsearchStore, searches: Searches
) -> None:
    await store.refresh_event_counts(datetime.now(UTC))
    await store.write_events([make_event(100, MIDNIGHT + DAY)])
    searches.facets = 0
    assert (await count(store)).total == 73
    assert searches.facets == 1
    await store.refresh_event_counts(datetime.now(UTC))
    searches.facets = 0
    assert (await count(store)).total == 73
    assert searches.facets == 0


async def test_days_that_are_too_large_to_store_are_counted_each_time(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_days, "_MOST_EVENTS", 30)
    pulls = [make_event(100 + n, MIDNIGHT + DAY, pull_request=100 + n) for n in range(9)]
    await store.write_events(pulls)
    await store.refresh_event_counts(datetime.now(UTC))
    first = await count(store)
    assert first.total == sum(first.histogram) == 81
    counted = searches.facets
    assert await count(store) == first
    assert searches.facets == counted + 1


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_whole_days, "_BYTES", 2 * (4_000 + 16_000))
    monkeypatch.setattr(event_whole_days, "_BYTES_OF_ONE", 4_000)
    remembered = RememberedDays()
    queries = [replace(ALL, pull_requests=(number,)) for number in range(3)]
    days = WholeHours(EventSums(HOUR))
    days.sums.facets["pull_request"] = dict.fromkeys(range(40), 1)
    remembered.keep(queries[0], days, 40)
    remembered.keep(queries[1], days, 40)
    assert remembered.find(queries[0], HOUR) == (days, 40)
    assert remembered.find(queries[0], 2 * HOUR) is None
    remembered.keep(queries[2], days, 40)
    # There is memory for two of them, and the second one was used least.
    kept = [query for query in queries if remembered.find(query, HOUR) is not None]
    assert kept == [queries[0], queries[2]]
    large = WholeHours(EventSums(HOUR))
    large.sums.facets["pull_request"] = dict.fromkeys(range(41), 1)
    remembered.keep(queries[0], large, 41)
    kept = [query for query in queries if remembered.find(query, HOUR) is not None]
    assert kept == [queries[2]]


def test_queries_without_matches_need_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_whole_days, "_BYTES", 100_000)
    remembered = RememberedDays()
    queries = [replace(ALL, pull_requests_excluded=(number,)) for number in range(100)]
    for query in queries:
        remembered.keep(query, WholeHours(EventSums(HOUR)), 0)
    assert sum(remembered.find(query, HOUR) is not None for query in queries) < 10
