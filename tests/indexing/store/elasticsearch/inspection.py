"""Opens a store over Elasticsearch, and inspects it from outside and inside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from indexing.models.events import EventQuery
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS

ALL = TestQuery(WIDGETS, ("*",))


async def open_at(place: ElasticsearchPlace) -> ElasticsearchStore:
    return await ElasticsearchStore.open(place.urls, prefix=place.prefix, api_key=place.api_key)


def cluster_of(store: ElasticsearchStore) -> Cluster:
    return store._cluster


async def ask(store: ElasticsearchStore, method: str, target: str, body: Any = None) -> Any:
    return await cluster_of(store).connection.request(method, target, body)


async def indices_of(store: ElasticsearchStore, name: str) -> list[str]:
    pattern = f"{cluster_of(store).layout.prefix}-{name}-*"
    found = await ask(store, "GET", f"/{pattern}/_settings")
    return sorted(index.removeprefix(pattern[:-1]) for index in found)


async def names(store: ElasticsearchStore, query: TestQuery = ALL) -> list[str]:
    page = await store.search_tests(query, Anchor(), 1_000)
    return sorted(row.key.test_name for row in page.rows)


async def event_ids(store: ElasticsearchStore) -> list[int]:
    query = EventQuery(WIDGETS, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
    return [row.key.id for row in (await store.list_events(query, Anchor(), 100)).rows]


def run_before(
    store: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    is_meant: Callable[[str, Any], bool],
    action: Callable[[], Awaitable[object]],
) -> None:
    """Run the action before the first request of the store whose target and body are meant."""
    connection = cluster_of(store).connection
    request, is_waiting = connection.request, True

    async def send(method: str, target: str, body: Any = None, **options: Any) -> Any:
        nonlocal is_waiting
        if is_waiting and is_meant(target, body):
            is_waiting = False
            await action()
        return await request(method, target, body, **options)

    monkeypatch.setattr(connection, "request", send)


def writes_executions(target: str, body: Any) -> bool:
    """Whether a request stores results; for `run_before`."""
    return target.startswith("/_bulk") and b"-executions-" in body


class KilledError(Exception):
    """The process is gone."""


@dataclass
class Requests:
    """How many more requests a store may send before it is killed."""

    left: int = 0


def limit_requests(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Kill the store at the first request beyond the limit, 0 at first."""
    connection = cluster_of(store).connection
    request, allowed = connection.request, Requests()

    async def die(*arguments: Any, **options: Any) -> Any:
        if not allowed.left:
            raise KilledError
        allowed.left -= 1
        return await request(*arguments, **options)

    monkeypatch.setattr(connection, "request", die)
    return allowed
