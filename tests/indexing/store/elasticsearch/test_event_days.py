"""Past days of the event log have tables, from which filtered counts are added up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indexing.models.event_aggregates import EventAggregate, choose_bars
from indexing.models.events import EventQuery, Outcome
from indexing.store.elasticsearch import event_days, event_whole_days
from indexing.store.elasticsearch.event_counts import aggregate_events
from indexing.store.elasticsearch.event_tables import DayTable
from indexing.store.elasticsearch.event_whole_days import RememberedDays
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.timestamps import EPOCH
from tests.builders import WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.facet_searches import Searches
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

pytestmark = pytest.mark.usefixtures("few_events_suffice")

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
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
    await refresh(store)
    return store


@pytest.fixture
def searches(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> Searches:
    """Note searches from here on, not while the store is filled."""
    return Searches(monkeypatch)


async def refresh(store: ElasticsearchStore) -> int:
    return await store.refresh_event_counts(datetime.now(UTC))


async def count(
    store: ElasticsearchStore, start: datetime = START, end: datetime = END, **filters: Any
) -> EventAggregate:
    """Return the counts as a process that remembers none would."""
    query, bars = EventQuery(WIDGETS, start, end, **filters), choose_bars(start, end)
    return await aggregate_events(cluster_of(store), RememberedDays(), query, bars)


async def stored(store: ElasticsearchStore) -> dict[datetime, dict[str, Any]]:
    """Return the stored tables by their day."""
    days = cluster_of(store).layout.days
    await ask(store, "POST", f"/{days}/_refresh")
    query = {"size": 100, "query": {"term": {"kind": event_days.KIND}}}
    found = await ask(store, "POST", f"/{days}/_search", query)
    hits = found["hits"]["hits"]
    tables = {EPOCH + each["_source"]["day"] * DAY: each for each in hits}
    assert len(tables) == len(hits)
    return tables


async def change(store: ElasticsearchStore, day: datetime, **fields: Any) -> None:
    """Change the document with the table of a day."""
    document = (await stored(store))[day]
    target = f"/{document['_index']}/_doc/{document['_id']}?routing={document['_routing']}"
    await ask(store, "PUT", target, document["_source"] | fields)


async def test_any_filters_are_answered_without_counting_events(
    store: ElasticsearchStore, searches: Searches
) -> None:
    assert (await count(store)).total == 72
    assert (await count(store, outcomes=(SUCCESS,))).total == 48
    assert (await count(store, base_ref="main")).total == 60
    left = await count(store, event_types_excluded=("action.t1",))
    assert [(each.value, each.count) for each in left.by_event_type] == [
        ("action.t0", 18),
        ("action.t2", 18),
        ("action.t3", 18),
    ]
    # An event without a pull request or a base branch matches a filter that leaves some out.
    assert (await count(store, pull_requests_excluded=(1, 2))).total == 72 - 21
    assert (await count(store, pull_requests=(1, 2))).total == 21
    found = await count(
        store, outcomes=(SUCCESS,), event_types_excluded=("action.t1",), pull_requests_excluded=(1,)
    )
    assert (found.total, sum(found.histogram)) == (30, 30)
    found = await count(store, base_ref="main", event_types_excluded=("action.t1",))
    assert (found.total, sum(found.histogram)) == (42, 42)
    assert searches.facets == 0


async def test_only_the_parts_of_hours_at_the_ends_of_a_range_are_counted(
    store: ElasticsearchStore, searches: Searches
) -> None:
    found = await count(store, MIDNIGHT + 5 * HOUR, MIDNIGHT + 70 * HOUR, outcomes=(SUCCESS,))
    assert found.total == sum(found.histogram) == 43
    assert searches.facets == 0
    ends = MIDNIGHT + 4.5 * HOUR, MIDNIGHT + 70.5 * HOUR
    found = await count(store, *ends, outcomes=(SUCCESS,))
    assert found.total == sum(found.histogram) == 44
    assert searches.facets == 2


async def test_a_day_that_has_changed_is_counted_until_its_table_is_made_again(
    store: ElasticsearchStore, searches: Searches
) -> None:
    new = make_event(100, after(days=1, minutes=30), pull_request=5, outcome=SUCCESS)
    await store.write_events([new])
    for counted in (1, 2):
        found = await count(store, outcomes=(SUCCESS,))
        assert found.total == sum(found.histogram) == 49
        assert searches.facets == counted
    assert await refresh(store) > 0
    searches.facets = 0
    assert (await count(store, outcomes=(SUCCESS,))).total == 49
    assert searches.facets == 0


async def test_a_part_of_a_changed_day_is_counted(store: ElasticsearchStore) -> None:
    new = [make_event(100 + n, MIDNIGHT + n * HOUR / 2, outcome=SUCCESS) for n in range(24)]
    await store.write_events(new)
    ends = MIDNIGHT + 5 * HOUR, MIDNIGHT + 70 * HOUR
    found = await count(store, *ends, outcomes=(SUCCESS,))
    assert found.total == sum(found.histogram) == 43 + 14


async def test_many_changed_days_are_counted_at_once(
    store: ElasticsearchStore, searches: Searches
) -> None:
    await store.write_events([make_event(100 + n, MIDNIGHT + n * DAY) for n in range(4)])
    found = await count(store, pull_requests_excluded=(1,))
    assert found.total == sum(found.histogram) == 72 - 11 + 4
    assert searches.facets == 1


async def test_days_that_are_too_large_for_a_table_are_counted_each_time(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All on the second day, which has nine more pull requests.
    await store.write_events(
        [make_event(100 + n, MIDNIGHT + DAY + n * HOUR, pull_request=50 + n) for n in range(9)]
    )
    for limit, most in (("_MOST_EVENTS", 24), ("_MOST_VALUES", 22), ("_MOST_BYTES", 350)):
        await ask(store, "DELETE", f"/{cluster_of(store).layout.control}/_doc/event-days")
        for day in await stored(store):
            await change(store, day, format=0)
        with monkeypatch.context() as patched:
            patched.setattr(event_days, limit, most)
            assert await refresh(store) == 3
        tables = await stored(store)
        assert [tables[day]["_source"]["table"] is None for day in sorted(tables)] == [
            False,
            True,
            False,
        ]
        with monkeypatch.context() as patched:
            searches = Searches(patched)
            found = await count(store, event_types_excluded=("action.t1",))
            assert found.total == sum(found.histogram) == 54 + 9
            assert {each.value for each in found.by_pull_request} >= set(range(50, 59))
            assert searches.facets == 1
        assert await refresh(store) == 0


async def test_busy_hours_are_read_by_several_searches(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_days, "_COUNTED_AT_ONCE", 3)
    # An hour with more groups than one answer has, and groups of several equal events.
    busy = [
        make_event(200 + n, MIDNIGHT + 5.5 * HOUR, pull_request=60 + n % 5, outcome=SUCCESS)
        for n in range(9)
    ]
    await store.write_events(busy)
    assert await refresh(store) > 0
    searches.facets = 0
    found = await count(store, outcomes=(SUCCESS,))
    assert found.total == sum(found.histogram) == 57
    by_pull = {each.value: each.count for each in found.by_pull_request}
    assert [by_pull[60 + n] for n in range(5)] == [2, 2, 2, 2, 1]
    assert searches.facets == 0


async def test_no_table_is_stored_of_a_day_that_changes_meanwhile(
    store: ElasticsearchStore, searches: Searches
) -> None:
    async def write() -> None:
        await store.write_events([make_event(101, after(minutes=31), outcome=SUCCESS)])

    await store.write_events([make_event(100, after(minutes=30), outcome=SUCCESS)])
    # It arrives after the events of the day have been counted, and before their values are.
    searches.before_next = write
    await refresh(store)
    assert searches.before_next is None
    assert (await stored(store))[MIDNIGHT]["_source"]["of"] == 24
    assert (await count(store, outcomes=(SUCCESS,))).total == 50
    assert await refresh(store) > 0
    assert (await stored(store))[MIDNIGHT]["_source"]["of"] == 26


async def test_a_table_that_another_process_makes_during_a_read_hides_no_old_one(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One event more on each of two days: their tables are old.
    await store.write_events([make_event(100, MIDNIGHT), make_event(101, MIDNIGHT + DAY)])
    read_tables = event_days.read_tables

    async def read_later(*arguments: Any) -> list[DayTable]:
        # After the read has begun, the first day gets another event, and a new table. Together the
        # tables have as many events as the days had at the beginning.
        await store.write_events([make_event(102, MIDNIGHT)])
        cluster = cluster_of(store)
        retention = await cluster.control.read_retention()
        table = await event_days.make_table(
            cluster, WIDGETS, (MIDNIGHT - EPOCH).days, 26, retention
        )
        assert table is not None
        await event_days.store_table(cluster, WIDGETS, table)
        return await read_tables(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(event_days, "read_tables", read_later)
        found = await count(store)
    assert found.total == sum(found.histogram) == 75


async def test_tables_of_another_format_are_not_read(
    store: ElasticsearchStore, searches: Searches
) -> None:
    await change(store, MIDNIGHT, format=0, table="?")
    assert (await count(store)).total == 72
    assert searches.facets == 1


async def test_what_an_earlier_release_stored_for_a_day_is_replaced(
    store: ElasticsearchStore, searches: Searches
) -> None:
    cluster = cluster_of(store)
    for day, document in (await stored(store)).items():
        routing = document["_routing"]
        place = f"/{document['_index']}/_doc/{document['_id']}?routing={routing}"
        await ask(store, "DELETE", place)
        for name in ("", "-0123456789abcdef"):
            earlier = {
                "repository_id": routing,
                "kind": event_days.KIND,
                "day": (day - EPOCH).days,
                "format": 2,
                "counts": '{"hours": [], "fields": {}, "of": 24}',
            }
            earlier_id = f"events-{routing}-{earlier['day']}{name}"
            target = f"/{document['_index']}/_doc/{earlier_id}?routing={routing}&refresh=true"
            await ask(store, "PUT", target, earlier)
    # Its last refresh has counted all days.
    record = f"/{cluster.layout.control}/_doc/event-days"
    source = (await ask(store, "GET", record))["_source"]
    del source["format"]
    source["until"] += 10**12
    await ask(store, "PUT", f"{record}?refresh=true", source)
    assert (await count(store, outcomes=(SUCCESS,))).total == 48
    assert await refresh(store) == 3
    assert {each["_source"]["format"] for each in (await stored(store)).values()} == {3}
    searches.facets = 0
    assert (await count(store, outcomes=(SUCCESS,))).total == 48
    assert searches.facets == 0


async def test_events_of_today_are_counted(store: ElasticsearchStore) -> None:
    now = datetime.now(UTC)
    await store.write_events([make_event(100, now)])
    await refresh(store)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert midnight not in await stored(store)
    assert (await count(store, midnight - 4 * DAY, midnight + 2 * DAY)).total == 1


async def test_pruning_deletes_the_tables_of_days_that_it_reaches(
    store: ElasticsearchStore,
) -> None:
    # The second day has lost its first twelve events.
    await store.prune(after(days=1), after(days=3))
    assert sorted(await stored(store)) == [MIDNIGHT + 2 * DAY]
    assert (await count(store)).total == 36
    await store.write_events([make_event(n, MIDNIGHT + n * HOUR) for n in range(6)])
    await refresh(store)
    assert (await count(store)).total == 42


async def test_few_matching_events_are_counted(
    store: ElasticsearchStore, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_whole_days, "_WORTHWHILE_MATCHES", 12)
    assert (await count(store, pull_requests=(1,))).total == 11
    assert searches.facets > 0
