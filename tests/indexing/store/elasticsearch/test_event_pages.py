"""A page of a long log reads a part of its time slices only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from indexing.errors import StaleKeyError
from indexing.models.events import EventKey, EventQuery
from indexing.models.paging import Anchor
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_event

DAY = timedelta(days=1)
MONTH = 30 * DAY


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The length of the time range of each search that was sent."""
    sent: list[timedelta] = []
    search = Connection.search

    async def note(self: Connection, index: str, body: Mapping[str, Any], **options: Any) -> Any:
        found = next(each["range"] for each in body["query"]["bool"]["filter"] if "range" in each)
        sent.append(
            timedelta(microseconds=found["received_at"]["lt"] - found["received_at"]["gte"])
        )
        return await search(self, index, body, **options)

    monkeypatch.setattr(Connection, "search", note)
    return sent


async def read_last(store: ElasticsearchStore, start: datetime, end: datetime) -> list[int]:
    page = await store.list_events(EventQuery(WIDGETS, start, end), Anchor(backward=True), 2)
    return [row.key.id for row in page.rows]


async def test_the_last_page_is_looked_for_in_a_part_of_a_long_range(
    store: ElasticsearchStore, ranges: list[timedelta]
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(n, after(hours=n)) for n in range(8)])
    assert await read_last(store, NOON, NOON + MONTH) == [1, 0]
    (part,) = ranges
    assert part < MONTH / 100
    # One row more than the page has shows that the list goes on.
    ranges.clear()
    assert await read_last(store, after(hours=5), NOON + MONTH) == [6, 5]
    assert await read_last(store, after(hours=6), NOON + MONTH) == [7, 6]
    assert len(ranges) == 3


async def test_a_range_of_a_day_is_read_at_once(
    store: ElasticsearchStore, ranges: list[timedelta]
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1)])
    assert await read_last(store, NOON, after(days=1)) == [1]
    assert ranges == [timedelta(days=1)]


async def test_a_page_reads_whole_documents_because_a_node_would_parse_them_to_choose_fields(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1, after(hours=1))])
    bodies: list[Mapping[str, Any]] = []
    search = Connection.search

    async def note(self: Connection, index: str, body: Mapping[str, Any], **options: Any) -> Any:
        bodies.append(body)
        return await search(self, index, body, **options)

    monkeypatch.setattr(Connection, "search", note)
    assert await read_last(store, NOON, NOON + timedelta(days=1)) == [1]
    (body,) = bodies
    assert body["_source"] is True


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indices of each search that was sent."""
    sent: list[str] = []
    request = Connection.request

    async def note(
        self: Connection, method: str, target: str, body: Any = None, **options: Any
    ) -> Any:
        if target.startswith("/_msearch"):
            sent.extend(orjson.loads(line)["index"] for line in body.split(b"\n")[:-1:2])
        elif "_search" in target:
            sent.append(target[1:].partition("/")[0])
        return await request(self, method, target, body, **options)

    monkeypatch.setattr(Connection, "request", note)
    return sent


async def load_months(store: ElasticsearchStore) -> EventQuery:
    """Write an event a day for a hundred days; return the query for all of them."""
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(n, NOON - n * DAY) for n in range(100)])
    return EventQuery(WIDGETS, NOON - 100 * DAY, NOON + DAY)


async def test_a_page_that_is_full_reads_its_own_slices_only(
    store: ElasticsearchStore, searched: list[str]
) -> None:
    query = await load_months(store)
    anchor: Anchor[EventKey] = Anchor()
    found: list[int] = []
    for _ in range(5):
        searched.clear()
        page = await store.list_events(query, anchor, 10)
        found += [row.key.id for row in page.rows]
        assert page.has_next
        assert page.has_previous == (anchor.key is not None)
        # A month and, in its first days, the one before.
        assert all(len(each.split(",")) <= 2 for each in searched)
        anchor = Anchor(page.rows[-1].key)
    assert found == [*range(50)]


@pytest.mark.parametrize("days", [1, 6, 25])
@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_a_walk_finds_each_event_whatever_its_slice(
    store: ElasticsearchStore, days: int, limit: int
) -> None:
    await store.ensure_repository(WIDGETS)
    events = [make_event(n, NOON - n * days * DAY) for n in range(14)]
    await store.write_events(events)
    query = EventQuery(WIDGETS, NOON - 1_000 * DAY, NOON + 1_000 * DAY)
    expected = [event.key for event in events]
    for start in range(0, len(expected), limit):
        anchor = Anchor(expected[start - 1]) if start else Anchor()
        page = await store.list_events(query, anchor, limit)
        assert [row.key for row in page.rows] == expected[start : start + limit]
        assert (page.has_previous, page.has_next) == (start > 0, start + limit < len(expected))


async def test_events_before_an_anchor_that_is_gone_may_be_in_other_slices(
    store: ElasticsearchStore,
) -> None:
    query = await load_months(store)
    gone = EventKey(NOON - 40 * DAY - timedelta(hours=1), 999)
    page = await store.list_events(query, Anchor(gone), 3)
    assert [row.key.id for row in page.rows] == [41, 42, 43]
    assert (page.has_previous, page.has_next) == (True, True)


async def test_the_end_of_time_is_a_valid_end_of_a_range(store: ElasticsearchStore) -> None:
    await load_months(store)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    page = await store.list_events(EventQuery(WIDGETS, first, last), Anchor(), 2)
    assert [row.key.id for row in page.rows] == [0, 1]
    page = await store.list_events(EventQuery(WIDGETS, first, last), Anchor(EventKey(last, 1)), 2)
    assert [row.key.id for row in page.rows] == [0, 1]


async def test_a_long_range_cannot_be_continued_from_what_retention_dropped(
    store: ElasticsearchStore,
) -> None:
    query = await load_months(store)
    await store.prune(NOON - 60 * DAY, NOON)
    with pytest.raises(StaleKeyError):
        await store.list_events(query, Anchor(EventKey(NOON - 70 * DAY, 70)), 2)
    page = await store.list_events(query, Anchor(EventKey(NOON - 58 * DAY, 58)), 2)
    assert [row.key.id for row in page.rows] == [59, 60]
    assert not page.has_next


async def test_a_range_with_too_many_slices_to_name_is_read_at_once(
    store: ElasticsearchStore, ranges: list[timedelta]
) -> None:
    await load_months(store)
    length = 1_000 * DAY
    query = EventQuery(WIDGETS, NOON - 100 * DAY, NOON - 100 * DAY + length)
    page = await store.list_events(query, Anchor(), 1_000)
    assert len(page.rows) == 100
    assert ranges == [length]
