"""Reads that are sent in one request give what each gives alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import FOREIGN, NOON, WIDGETS, after, load_names, make_event

NAMES = [f"suite.test_{letter}" for letter in "abcdef"]

Read = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of all requests that were sent."""
    sent: list[str] = []
    request = Connection.request

    async def note(self: Connection, method: str, target: str, *rest: Any, **options: Any) -> Any:
        sent.append(target.partition("?")[0])
        return await request(self, method, target, *rest, **options)

    monkeypatch.setattr(Connection, "request", note)
    return sent


async def both(reads: list[Read], requests: list[str]) -> tuple[list[Any], list[str]]:
    """Compare the reads one after the other with all at once; return the requests of the latter."""
    alone = [await read() for read in reads]
    requests.clear()
    assert await asyncio.gather(*(read() for read in reads)) == alone
    return alone, requests


async def test_details_of_tests_are_read_in_one_request(
    store: ElasticsearchStore, requests: list[str]
) -> None:
    await load_names(store, NAMES)

    def read(name: str) -> Read:
        return lambda: store.get_test(WIDGETS, derive_test_id(WIDGETS, name))

    alone, sent = await both([read(name) for name in (*NAMES, "missing")], requests)
    assert [test and test.test_name for test in alone] == [*NAMES, None]
    assert sent == ["/_mget"]


async def test_pages_of_events_are_read_in_one_request(
    store: ElasticsearchStore, requests: list[str]
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(n, after(hours=n)) for n in range(9)])

    def read(hours: int, anchor: Anchor[Any]) -> Read:
        query = EventQuery(WIDGETS, NOON, after(hours=hours))
        return lambda: store.list_events(query, anchor, 2)

    first = await read(9, Anchor())()
    newest, next_one = (Anchor(row.key) for row in first.rows)
    reads = [read(9, Anchor()), read(9, next_one), read(6, Anchor()), read(9, newest)]
    alone, sent = await both(reads, requests)
    assert [[row.key.id for row in page.rows] for page in alone] == [[8, 7], [6, 5], [5, 4], [7, 6]]
    assert sent == ["/_msearch"]


async def test_searches_are_sent_in_a_request_for_each_kind(
    store: ElasticsearchStore, requests: list[str]
) -> None:
    await load_names(store, NAMES)

    def read(pattern: str) -> Read:
        return lambda: store.search_tests(TestQuery(WIDGETS, (pattern,)), Anchor(), 2)

    patterns = ["suite.*", "suite.test_a", "*test_b", "*_?", "*?_?", "other*"]
    alone, sent = await both([read(pattern) for pattern in patterns], requests)
    assert [len(page.rows) for page in alone] == [2, 1, 1, 2, 2, 0]
    # Those that read all names wait for none that is looked up, and none of these for them.
    assert sent == ["/_msearch", "/_msearch"]


async def test_lists_of_quarantines_are_read_in_two_requests(
    store: ElasticsearchStore, requests: list[str]
) -> None:
    for number, branch in enumerate((None, "main", "release-*")):
        request = QuarantineRequest(f"test {number}", "why", branch)
        await store.add_quarantine(WIDGETS, request, after(seconds=number))

    def read(branch: str, repository: Any = WIDGETS) -> Read:
        query = QuarantineQuery(repository, after(hours=1), branch)
        return lambda: store.list_quarantines(query, Anchor(), None)

    alone, sent = await both([read("main"), read("release-1"), read("main", FOREIGN)], requests)
    assert [len(page.rows) for page in alone] == [2, 2, 0]
    assert "/_msearch" in sent
    assert len(sent) == 2
