"""Pages of large events are read in portions: a hundred may have a hundred megabytes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.events import EventKey, EventQuery, StoredEvent
from indexing.models.paging import Anchor
from indexing.store.elasticsearch.client import connection
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, make_event

EVERYTHING = EventQuery(WIDGETS, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
LARGE, SMALL = 32, 40


def make_large(number: int) -> StoredEvent:
    """Return an event of nearly a megabyte, which a response quotes in twice as many bytes."""
    event = make_event(number)
    return replace(event, body=event.body[:-1] + b',"x":"' + 450_000 * b"\\\\" + b'"}')


@pytest.fixture(autouse=True)
def reads_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine take more than two seconds for a response of many megabytes."""
    monkeypatch.setattr(connection, "READING", connection.WRITING)


@pytest.fixture
async def filled(store: ElasticsearchStore) -> ElasticsearchStore:
    """A store of large events, and of newer small ones."""
    await store.ensure_repository(WIDGETS)
    for start in range(0, LARGE, 8):
        await store.write_events([make_large(start + number) for number in range(8)])
    await store.write_events([make_event(LARGE + number) for number in range(SMALL)])
    return store


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events that each request asks for."""
    sent: list[int] = []
    request = Connection.request

    async def note(
        self: Connection, method: str, target: str, body: Any = None, **options: Any
    ) -> Any:
        if isinstance(body, dict) and "sort" in body:
            sent.append(body["size"])
        return await request(self, method, target, body, **options)

    monkeypatch.setattr(Connection, "request", note)
    return sent


@pytest.mark.parametrize("backward", [False, True])
async def test_a_walk_meets_each_event_once(filled: ElasticsearchStore, backward: bool) -> None:
    met: list[int] = []
    key: EventKey | None = None
    while True:
        page = await filled.list_events(EVERYTHING, Anchor(key, backward), 100)
        found = [row.key.id for row in page.rows]
        assert found
        assert sum(len(row.body) for row in page.rows) <= 8 * 1024 * 1024
        met = [*found, *met] if backward else [*met, *found]
        assert (page.has_next if backward else page.has_previous) is (key is not None)
        if not (page.has_previous if backward else page.has_next):
            break
        key = page.rows[0 if backward else -1].key
    assert met == list(range(LARGE + SMALL))[::-1]


async def test_the_next_read_begins_with_a_few_events(
    filled: ElasticsearchStore, sizes: list[int]
) -> None:
    first = await filled.list_events(EVERYTHING, Anchor(), 100)
    assert sizes[0] == 101
    sizes.clear()
    assert await filled.list_events(EVERYTHING, Anchor(), 100) == first
    assert sizes[0] == 9
    sizes.clear()
    assert (await filled.list_events(EVERYTHING, Anchor(), 5)).rows == first.rows[:5]
    assert sizes == [6]


async def test_an_answer_that_did_not_come_is_asked_for_in_portions(
    store: ElasticsearchStore, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(number) for number in range(20)])
    with monkeypatch.context() as patch:

        async def hang(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError("no answer")

        patch.setattr(Connection, "search", hang)
        with pytest.raises(StoreUnavailableError):
            await store.list_events(EVERYTHING, Anchor(), 100)
    page = await store.list_events(EVERYTHING, Anchor(), 100)
    assert [row.key.id for row in page.rows] == list(range(20))[::-1]
    assert sizes[0] == 9


async def test_pages_at_the_same_time_are_not_too_large_together(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_large(number) for number in range(8)])
    pages = await asyncio.gather(*(store.list_events(EVERYTHING, Anchor(), 5) for _ in range(3)))
    assert [[row.key.id for row in page.rows] for page in pages] == [[7, 6, 5, 4, 3]] * 3
