"""The tables of past days of the event log are made before anyone asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.event_aggregates import choose_bars
from indexing.models.events import EventQuery, Outcome
from indexing.names import RepositoryName
from indexing.store.elasticsearch import event_whole_days
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.places import Search
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.event_counts import aggregate_events
from indexing.store.elasticsearch.event_whole_days import RememberedDays
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import GADGETS, WIDGETS, after, make_event
from tests.indexing.store.elasticsearch.facet_searches import Searches
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

pytestmark = pytest.mark.usefixtures("few_events_suffice")

DAY = timedelta(days=1)
MIDNIGHT = after(hours=-12)
SUCCESS = Outcome.SUCCESS


@pytest.fixture
async def store(store: ElasticsearchStore) -> ElasticsearchStore:
    """A store with the events of three days, which are counted."""
    await store.ensure_repository(WIDGETS)
    await write(store, range(3))
    await store.refresh_event_counts(datetime.now(UTC))
    return store


async def write(
    store: ElasticsearchStore, days: Sequence[int], name: RepositoryName = WIDGETS
) -> None:
    """Write 24 events on each of these days, half of them a success."""
    hour = timedelta(hours=1)
    await store.write_events(
        [
            make_event(
                100 * day + n,
                MIDNIGHT + day * DAY + n * hour,
                repository=name,
                outcome=SUCCESS if n % 2 else Outcome.FAILURE,
            )
            for day in days
            for n in range(24)
        ]
    )


async def count_successes(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch, name: RepositoryName
) -> tuple[int, int]:
    """Return the number of successes of nine days, and how many searches counted events."""
    # A shorter range has bars of less than an hour, which no stored counts have.
    start, end = MIDNIGHT, MIDNIGHT + 9 * DAY
    query = EventQuery(name, start, end, outcomes=(SUCCESS,))
    with monkeypatch.context() as patched:
        searches = Searches(patched)
        found = await aggregate_events(
            cluster_of(store), RememberedDays(), query, choose_bars(start, end)
        )
    return found.total, searches.facets


async def test_a_refresh_counts_each_day_once_and_later_ones_if_they_change(
    store: ElasticsearchStore,
) -> None:
    now = datetime.now(UTC)
    # The last seconds may have events that were not visible, so they are looked at again.
    later = now + timedelta(seconds=10)
    await store.refresh_event_counts(later)
    assert await store.refresh_event_counts(later) == 0
    assert await store.refresh_event_counts(later + DAY) == 0


async def test_a_day_is_counted_when_it_is_past(store: ElasticsearchStore) -> None:
    now = datetime.now(UTC) + timedelta(seconds=10)
    await store.refresh_event_counts(now)
    await store.write_events([make_event(100, now), make_event(101, now + DAY)])
    await store.refresh_event_counts(now)
    assert await store.refresh_event_counts(now + DAY) == 1
    assert await store.refresh_event_counts(now + 2 * DAY) == 1
    assert await store.refresh_event_counts(now + 3 * DAY) == 0


async def test_small_logs_are_not_counted(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_whole_days, "WORTHWHILE", 1_000)
    await store.write_events([make_event(100, after(minutes=30))])
    assert await store.refresh_event_counts(datetime.now(UTC)) == 0


async def test_a_refresh_that_cannot_store_counts_is_repeated(store: ElasticsearchStore) -> None:
    days = cluster_of(store).layout.days
    await ask(store, "PUT", f"/{days}/_settings", {"index.blocks.write": True})
    await store.write_events([make_event(100, after(minutes=30))])
    assert await store.refresh_event_counts(datetime.now(UTC)) == 0
    await ask(store, "PUT", f"/{days}/_settings", {"index.blocks.write": None})
    assert await store.refresh_event_counts(datetime.now(UTC)) > 0


async def test_a_day_that_is_counted_is_not_counted_again(store: ElasticsearchStore) -> None:
    cluster = cluster_of(store)
    # As if the process had been killed before it wrote the record.
    await ask(store, "DELETE", f"/{cluster.layout.control}/_doc/event-days?refresh=true")
    assert await store.refresh_event_counts(datetime.now(UTC)) == 0
    await write(store, [3])
    assert await store.refresh_event_counts(datetime.now(UTC)) == 1


async def test_a_day_that_cannot_be_counted_holds_up_no_other_repository(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(GADGETS)
    await write(store, range(9), WIDGETS)
    await write(store, range(2), GADGETS)
    works = False
    original = Connection.search_many

    async def search_many(
        connection: Connection, searches: Sequence[Search], **options: Any
    ) -> list[Any]:
        heavy = any("aggs" in each.body for each in searches)
        if heavy and not works and searches[0].routing == routing_of(WIDGETS):
            raise StoreUnavailableError("the node takes too long")
        return await original(connection, searches, **options)

    monkeypatch.setattr(Connection, "search_many", search_many)
    # Each refresh begins with days that have not failed before.
    counted = [await store.refresh_event_counts(datetime.now(UTC)) for _ in range(4)]
    assert sum(counted) == 2
    assert (await count_successes(store, monkeypatch, GADGETS)) == (24, 0)
    works = True
    assert await store.refresh_event_counts(datetime.now(UTC)) == 6
    assert (await count_successes(store, monkeypatch, WIDGETS)) == (108, 0)
    assert await store.refresh_event_counts(datetime.now(UTC)) == 0


async def test_all_days_of_a_log_are_counted_once_it_is_large(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_whole_days, "WORTHWHILE", 80)
    await store.ensure_repository(GADGETS)
    for day in range(4):
        await write(store, [day], GADGETS)
        counted = await store.refresh_event_counts(datetime.now(UTC))
        assert counted == (4 if day == 3 else 0)
    assert (await count_successes(store, monkeypatch, GADGETS)) == (48, 0)


async def test_a_clock_that_is_minutes_ahead_misses_no_event(store: ElasticsearchStore) -> None:
    ahead = datetime.now(UTC) + timedelta(minutes=5)
    assert await store.refresh_event_counts(ahead) == 0
    await write(store, [3])
    assert await store.refresh_event_counts(ahead) == 1


async def test_a_refresh_ends_when_its_caller_says_so(store: ElasticsearchStore) -> None:
    await write(store, range(3, 6))
    asked = 0

    async def four_times() -> bool:
        nonlocal asked
        asked += 1
        return asked <= 4

    # The first three days are looked at again, because their events are new.
    assert await store.refresh_event_counts(datetime.now(UTC), four_times) == 1
    assert await store.refresh_event_counts(datetime.now(UTC)) == 2
