"""Whole days of the event log are counted once, and again when they have changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from indexing.models.event_aggregates import EventAggregate, choose_bars
from indexing.models.events import EventQuery
from indexing.store.elasticsearch import event_day_counts, event_days
from indexing.store.elasticsearch.event_counts import aggregate_events
from indexing.store.elasticsearch.event_whole_days import RememberedDays
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.timestamps import EPOCH
from tests.builders import NOON, WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

DAY = timedelta(days=1)
MIDNIGHT = after(hours=-12)
START, END = MIDNIGHT - 2 * DAY, MIDNIGHT + 3 * DAY


@pytest.fixture(autouse=True)
def few_events_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_days, "WORTHWHILE", 1)


@pytest.fixture
async def store(store: ElasticsearchStore) -> ElasticsearchStore:
    """A store with 24 events, two hours apart, from NOON on."""
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(n, after(hours=2 * n)) for n in range(24)])
    return store


async def count(
    store: ElasticsearchStore, start: datetime = START, end: datetime = END
) -> EventAggregate:
    """Return the counts as a process that remembers none would."""
    query, bars = EventQuery(WIDGETS, start, end), choose_bars(start, end)
    return await aggregate_events(cluster_of(store), RememberedDays(), query, bars)


async def stored_days(store: ElasticsearchStore) -> dict[datetime, dict[str, Any]]:
    """Return the documents with counts by the day that they count."""
    days = cluster_of(store).layout.days
    await ask(store, "POST", f"/{days}/_refresh")
    query = {"size": 100, "query": {"term": {"kind": event_day_counts.KIND}}}
    found = await ask(store, "POST", f"/{days}/_search", query)
    return {EPOCH + each["_source"]["day"] * DAY: each for each in found["hits"]["hits"]}


async def tamper(store: ElasticsearchStore, day: datetime) -> None:
    """Rename the types in the stored counts of a day."""
    document = (await stored_days(store))[day]
    counts = orjson.loads(document["_source"]["counts"])
    counts["fields"]["type"] = [["stored"], [sum(counts["hours"])]]
    source = document["_source"] | {"counts": orjson.dumps(counts).decode()}
    target = f"/{document['_index']}/_doc/{document['_id']}?routing={document['_routing']}"
    await ask(store, "PUT", target, source)


async def test_a_day_is_counted_once(store: ElasticsearchStore) -> None:
    first = await count(store)
    assert first.total == sum(first.histogram) == 24
    assert sorted(await stored_days(store)) == [MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + 2 * DAY]
    await tamper(store, MIDNIGHT + DAY)
    (counted, stored) = (await count(store)).by_event_type
    assert (counted.value, counted.count, stored.value, stored.count) == (
        ("action.rebase", 12, "stored", 12)
    )


async def test_a_day_that_has_changed_is_counted_again(store: ElasticsearchStore) -> None:
    await count(store)
    await tamper(store, MIDNIGHT + DAY)
    await store.write_events([make_event(100, after(days=1))])
    for _ in range(2):
        found = await count(store)
        assert found.total == sum(found.histogram) == 25
        assert [(each.value, each.count) for each in found.by_event_type] == [("action.rebase", 25)]


async def test_the_ends_of_a_range_are_not_read_from_stored_days(store: ElasticsearchStore) -> None:
    await count(store)
    # A bar has an hour or more; the range begins and ends within one.
    found = await count(store, NOON + timedelta(hours=3, minutes=10), after(hours=45, minutes=50))
    assert found.total == sum(found.histogram) == 21


async def test_days_with_many_values_are_counted_each_time(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_day_counts, "_MOST_VALUES", 2)
    # All on the first of three days.
    await store.write_events(
        [make_event(100 + n, after(hours=n), pull_request=n) for n in range(9)]
    )
    for _ in range(2):
        found = await count(store)
        assert found.total == sum(found.histogram) == 33
        assert {each.value for each in found.by_pull_request} >= set(range(9))
    await tamper(store, MIDNIGHT + DAY)
    found = await count(store)
    assert {each.value: each.count for each in found.by_event_type}["stored"] == 12
    assert sum(each.count for each in found.by_event_type) == 33


async def test_many_such_days_are_counted_at_once(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_day_counts, "_MOST_VALUES", 2)
    # Every second day has more values than are stored.
    days = [after(days=2 * n, minutes=pull) for n in range(6) for pull in range(3)]
    await store.write_events(
        [make_event(100 + n, at, pull_request=at.minute) for n, at in enumerate(days)]
    )
    for _ in range(2):
        found = await count(store, START, MIDNIGHT + 12 * DAY)
        assert found.total == sum(found.histogram) == 24 + 18


async def test_counts_that_cannot_be_stored_are_answered_and_not_tried_again_at_once(
    store: ElasticsearchStore, caplog: pytest.LogCaptureFixture
) -> None:
    days = cluster_of(store).layout.days
    await ask(store, "PUT", f"/{days}/_settings", {"index.blocks.write": True})
    assert (await count(store)).total == 24
    assert "cannot be stored" in caplog.text
    assert "blocked" in caplog.text
    caplog.clear()
    assert (await count(store)).total == 24
    assert caplog.text == ""
    assert await stored_days(store) == {}


@pytest.mark.parametrize("other", [{"format": 0}, {}])
async def test_counts_of_another_format_are_replaced(
    store: ElasticsearchStore, other: dict[str, int]
) -> None:
    await count(store)
    document = (await stored_days(store))[MIDNIGHT]
    del document["_source"]["format"]
    source = document["_source"] | other | {"counts": "{}"}
    target = f"/{document['_index']}/_doc/{document['_id']}?routing={document['_routing']}"
    await ask(store, "PUT", target, source)
    for _ in range(2):
        assert (await count(store)).total == 24


async def test_today_is_not_stored(store: ElasticsearchStore) -> None:
    now = datetime.now(UTC)
    await store.write_events([make_event(100, now)])
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert (await count(store, midnight - 4 * DAY, midnight + 2 * DAY)).total == 1
    assert await stored_days(store) == {}


async def test_pruning_deletes_the_counts_of_days_that_it_reaches(
    store: ElasticsearchStore,
) -> None:
    await count(store)
    await store.prune(after(days=1), after(days=3))
    assert sorted(await stored_days(store)) == [MIDNIGHT + 2 * DAY]
    assert (await count(store)).total == 12
    await store.write_events([make_event(n, after(hours=2 * n)) for n in range(6)])
    assert (await count(store)).total == 18


async def test_a_day_that_another_process_counts_during_a_read_hides_no_stale_one(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await count(store)
    # One event more on each of two days: their stored counts are old.
    await store.write_events([make_event(100, MIDNIGHT), make_event(101, MIDNIGHT + DAY)])
    read_stored = event_days.read_stored

    async def read_later(*arguments: Any) -> list[event_day_counts.DayCounts]:
        # After the read has begun, the first day gets another event and is counted again. Together
        # the stored counts are as many as the events at the beginning.
        await store.write_events([make_event(102, MIDNIGHT)])
        cluster = cluster_of(store)
        retention = await cluster.control.read_retention()
        day = (MIDNIGHT - EPOCH).days
        await event_days.count_days(cluster, WIDGETS, [day], retention)
        return await read_stored(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(event_days, "read_stored", read_later)
        found = await count(store)
    assert found.total == sum(found.histogram) == 27
