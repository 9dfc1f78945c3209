"""The last page of a long log costs no more than the first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_event

MONTH = timedelta(days=30)


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
