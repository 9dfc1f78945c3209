"""The counts of the event log are exact, and a node keeps those of whole bars."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.event_aggregates import EventAggregate, choose_bars
from indexing.models.events import EventQuery
from indexing.store.elasticsearch import event_query, event_top_values
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of


async def count(store: ElasticsearchStore, start: datetime, end: datetime) -> EventAggregate:
    return await store.aggregate_events(EventQuery(WIDGETS, start, end), choose_bars(start, end))


async def read_hits(store: ElasticsearchStore) -> int:
    """Return how many searches of event indices were answered from the cache of the node."""
    found = await ask(store, "GET", f"/{cluster_of(store).layout.events}/_stats/request_cache")
    hits: int = found["_all"]["total"]["request_cache"]["hit_count"]
    return hits


async def test_whole_bars_are_counted_once_while_the_range_moves_within_a_bar(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(n, after(minutes=20 * n)) for n in range(73)])
    day, minute = timedelta(days=1), timedelta(minutes=1)
    assert choose_bars(NOON, NOON + day).size > 3 * 60 * 1_000_000
    assert (await count(store, NOON + minute, NOON + day + minute)).total == 72
    before = await read_hits(store)
    moved = await count(store, NOON + 2 * minute, NOON + day + 2 * minute)
    assert await read_hits(store) == before + 1
    assert moved.total == sum(moved.histogram) == 72
    # A new event is counted at once.
    await store.write_events([make_event(100, after(hours=6, minutes=1))])
    assert (await count(store, NOON + 2 * minute, NOON + day + 2 * minute)).total == 73


async def test_a_facet_with_more_values_than_an_answer_has_is_exact(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_query, "_MOST_VALUES", 3)
    await store.ensure_repository(WIDGETS)
    pulls = [1, 2, 3, 4, 5, 6, 7, 7, 6, 7, 5, 4]
    events = [make_event(n, after(hours=2 * n), pull_request=p) for n, p in enumerate(pulls)]
    await store.write_events(events)
    found = await count(store, after(minutes=-1), after(days=1))
    assert {each.value: each.count for each in found.by_pull_request} == Counter(pulls)
    assert [each.value for each in found.by_pull_request] == [7, 4, 5, 6, 1, 2, 3]
    assert found.total == len(pulls)


async def test_the_values_of_a_facet_are_not_read_page_by_page_if_shards_can_send_them(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_query, "_MOST_VALUES", 3)
    monkeypatch.setattr(event_top_values, "_MOST_PAGES", 0)
    await store.ensure_repository(WIDGETS)
    events = [make_event(n, after(hours=-2 * n), pull_request=n % 7) for n in range(20)]
    await store.write_events(events)
    of_two_months = await count(store, after(days=-2), after(minutes=1))
    assert len(of_two_months.by_pull_request) == 7
    for name in ("MAX_FACET_VALUES", "_OF_A_SHARD"):
        monkeypatch.setattr(event_top_values, name, 2)
    with pytest.raises(StoreUnavailableError):
        await count(store, after(days=-2), after(minutes=2))
    # One shard has all events of a month.
    of_one_month = await count(store, after(hours=-11), after(minutes=1))
    assert [(each.value, each.count) for each in of_one_month.by_pull_request] == [(0, 1), (1, 1)]
