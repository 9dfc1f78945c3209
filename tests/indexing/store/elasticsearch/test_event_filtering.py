"""Filtered counts of the event log are added up from the stored counts of single values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from indexing.models.event_aggregates import EventAggregate, choose_bars
from indexing.models.events import EventQuery, Outcome
from indexing.store.elasticsearch import (
    event_day_counts,
    event_day_refresh,
    event_filtering,
)
from indexing.store.elasticsearch.event_counts import aggregate_events
from indexing.store.elasticsearch.event_day_counts import DayCounts
from indexing.store.elasticsearch.event_whole_days import RememberedDays
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.facet_searches import Searches
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

pytestmark = pytest.mark.usefixtures("few_events_suffice")

DAY = timedelta(days=1)
MIDNIGHT = after(hours=-12)
START, END = MIDNIGHT - DAY, MIDNIGHT + 4 * DAY
SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


@pytest.fixture
async def store(store: ElasticsearchStore) -> ElasticsearchStore:
    """A store with 72 events, an hour apart: 2 of 3 a success, 10 of 12 of `main`, 1 of none."""
    await store.ensure_repository(WIDGETS)
    events = [
        make_event(
            n,
            MIDNIGHT + timedelta(hours=n),
            event_type=f"action.t{n % 4}",
            pull_request=n % 7 or None,
            base_ref="main" if n % 6 else "release" if n % 12 else None,
            outcome=SUCCESS if n % 3 else FAILURE,
        )
        for n in range(72)
    ]
    await store.write_events(events)
    await store.refresh_event_counts(datetime.now(UTC))
    return store


async def count(store: ElasticsearchStore, **filters: Any) -> EventAggregate:
    """Return the counts as a process that remembers none would."""
    query, bars = EventQuery(WIDGETS, START, END, **filters), choose_bars(START, END)
    return await aggregate_events(cluster_of(store), RememberedDays(), query, bars)


@pytest.fixture
def searches(
    store: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
) -> Searches:
    return Searches(monkeypatch)


async def test_one_filter_is_answered_without_counting_events(
    store: ElasticsearchStore, searches: Searches
) -> None:
    assert (await count(store, outcomes=(SUCCESS,))).total == 48
    assert (await count(store, base_ref="main")).total == 60
    left = await count(store, event_types_excluded=("action.t1",))
    assert [(each.value, each.count) for each in left.by_event_type] == [
        ("action.t0", 18),
        ("action.t2", 18),
        ("action.t3", 18),
    ]
    assert (await count(store, pull_requests_excluded=(1, 2))).total == 72 - 21
    assert searches.facets == 0


async def test_an_outcome_and_another_filter_are_answered_without_counting_events(
    store: ElasticsearchStore, searches: Searches
) -> None:
    found = await count(store, outcomes=(SUCCESS,), event_types_excluded=("action.t1",))
    assert (found.total, sum(found.histogram)) == (36, 36)
    assert [each.value for each in found.by_event_type] == ["action.t0", "action.t2", "action.t3"]
    assert [(each.value, each.count) for each in found.by_outcome] == [("success", 36)]
    assert (await count(store, outcomes=(FAILURE,), base_ref="main")).total == 12
    assert (await count(store, outcomes=(SUCCESS,), event_types=("action.t1",))).total == 12
    assert searches.facets == 0


async def test_what_fails_a_further_filter_is_subtracted(
    store: ElasticsearchStore, searches: Searches
) -> None:
    filters = {"event_types_excluded": ("action.t1",), "pull_requests_excluded": (1,)}
    found = await count(store, **filters)
    assert (found.total, sum(found.histogram)) == (46, 46)
    assert (found.by_pull_request[0].value, found.by_pull_request[0].count) == (3, 8)
    assert searches.facets == 1
    found = await count(store, outcomes=(SUCCESS,), **filters)
    assert (found.total, sum(found.histogram)) == (30, 30)
    assert searches.facets == 2


async def test_events_without_a_value_fail_a_filter_by_it(
    store: ElasticsearchStore, searches: Searches
) -> None:
    # Of `main` are 60, and of the other 12 none has that type; 6 of them have no branch.
    found = await count(store, base_ref="main", event_types_excluded=("action.t1",))
    assert found.total == 42
    assert searches.facets == 1


async def test_rare_values_are_counted(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the 24 events of a day, three or four are for each pull request, and 20 of `main`.
    monkeypatch.setattr(event_filtering, "_SHARE", 5)
    assert (await count(store, base_ref="main")).total == 60
    assert searches.facets == 0
    assert (await count(store, pull_requests_excluded=(1,))).total == 72 - 11
    assert searches.facets == 1


async def test_rare_values_of_an_outcome_are_counted(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_filtering, "_SHARE", 5)
    # Of each day, 16 events are successes, and four of these have that type.
    found = await count(store, outcomes=(SUCCESS,), event_types_excluded=("action.t1",))
    assert (found.total, sum(found.histogram)) == (36, 36)
    assert [(each.value, each.count) for each in found.by_outcome] == [("success", 36)]
    assert searches.facets == 1


async def test_nothing_is_subtracted_for_days_that_are_not_stored(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_day_counts, "_MOST_VALUES", 8)
    # The first day gets more pull requests than are stored.
    late = [make_event(200 + n, MIDNIGHT + DAY / 2, pull_request=50 + n) for n in range(9)]
    await store.write_events(late)
    await store.refresh_event_counts(datetime.now(UTC))
    searches.facets = 0
    filters = {"event_types_excluded": ("action.t1",), "pull_requests_excluded": (1,)}
    found = await count(store, **filters)
    assert (found.total, sum(found.histogram)) == (55, 55)
    # What to subtract, and the first day.
    assert searches.facets == 2


async def test_counts_of_values_are_not_used_once_their_day_has_changed(
    store: ElasticsearchStore, searches: Searches
) -> None:
    await store.write_events([make_event(100, after(minutes=30), outcome=SUCCESS)])
    assert (await count(store, outcomes=(SUCCESS,))).total == 49
    assert searches.facets > 0
    assert await store.refresh_event_counts(datetime.now(UTC)) > 0
    searches.facets = 0
    assert (await count(store, outcomes=(SUCCESS,))).total == 49
    assert searches.facets == 0


async def test_nothing_is_subtracted_from_counts_of_other_events(
    store: ElasticsearchStore, searches: Searches
) -> None:
    async def write() -> None:
        # It passes the most selective filter and fails the other one.
        await store.write_events([make_event(100, after(minutes=30), base_ref="release")])

    # It arrives between the reading of the counts and the search for what to subtract.
    searches.before_next = write
    found = await count(store, base_ref="main", event_types_excluded=("action.t1",))
    assert found.total == 42
    assert searches.before_next is None


async def stored_values(store: ElasticsearchStore) -> list[dict[str, Any]]:
    """Return the documents with the counts of single values."""
    days = cluster_of(store).layout.days
    await ask(store, "POST", f"/{days}/_refresh")
    found = await ask(store, "POST", f"/{days}/_search", {"size": 1_000})
    hits: list[dict[str, Any]] = found["hits"]["hits"]
    return [hit for hit in hits if hit["_id"].count("-") == 3]


async def test_counts_of_values_of_other_events_are_not_used(store: ElasticsearchStore) -> None:
    hits = await stored_values(store)
    assert len(hits) > 10
    for hit in hits:
        counts = orjson.loads(hit["_source"]["counts"]) | {"of": 1}
        source = hit["_source"] | {"counts": orjson.dumps(counts).decode()}
        target = f"/{hit['_index']}/_doc/{hit['_id']}?routing={hit['_routing']}"
        await ask(store, "PUT", target, source)
    assert (await count(store, outcomes=(SUCCESS,))).total == 48


async def test_a_refresh_stores_no_counts_of_a_day_that_changes_meanwhile(
    store: ElasticsearchStore, searches: Searches
) -> None:
    async def write() -> None:
        await store.write_events([make_event(101, after(minutes=31), outcome=SUCCESS)])

    await store.write_events([make_event(100, after(minutes=30), outcome=SUCCESS)])
    # It arrives after the whole day has been counted.
    searches.before_next, searches.skipped = write, 1
    await store.refresh_event_counts(datetime.now(UTC))
    assert searches.before_next is None
    stored = [orjson.loads(hit["_source"]["counts"]) for hit in await stored_values(store)]
    # All events have the same trigger.
    assert all(sum(each["hours"]) <= each["of"] for each in stored)
    assert (await count(store, outcomes=(SUCCESS,))).total == 50


async def test_many_values_of_a_day_are_counted_by_several_searches(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_day_refresh, "_BUCKETS", 30)
    await store.write_events([make_event(100, after(minutes=30), outcome=SUCCESS)])
    await store.refresh_event_counts(datetime.now(UTC))
    seen = Searches(monkeypatch)
    assert (await count(store, outcomes=(SUCCESS,))).total == 49
    assert (await count(store, triggers=("rule",))).total == 73
    assert seen.facets == 0


def test_values_of_a_small_day_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayCounts(1, [640] + [0] * 23, {"type": (["a", "b", "c"], [620, 10, 9])}, 640)
    values = event_filtering.frequent_values(day, "type")
    assert [each.value for each in values] == ["a", "b"]
    monkeypatch.setattr(event_filtering, "_SMALL_DAY", 1_000)
    assert event_filtering.frequent_values(day, "type") == []
    assert event_filtering.frequent_values(replace(day, fields=None), "type") == []
