"""What the list of an owner's repositories holds up on Elasticsearch."""

from __future__ import annotations

import asyncio

import pytest

from indexing.models.listed_repositories import RepositoryQuery, RepositorySort
from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from indexing.store.elasticsearch import listed_repositories
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON


async def test_the_event_loop_goes_on_while_all_repositories_are_sorted(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner may have tens of thousands."""
    names = [RepositoryName("acme", f"r{number:02}") for number in range(20)]
    for name in names:
        await store.ensure_repository(name)
    handled = 0

    def count(name: RepositoryName) -> str:
        nonlocal handled
        handled += 1
        return routing_of(name)

    monkeypatch.setattr(listed_repositories, "_REPOSITORIES_A_PAGE", 4)
    monkeypatch.setattr(listed_repositories, "routing_of", count)
    steps: list[int] = []

    async def watch() -> None:
        nonlocal handled
        while True:
            steps.append(handled)
            handled = 0
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    query = RepositoryQuery("acme", NOON, sort=RepositorySort.WORST)
    page = await store.list_owned(query, Anchor(), 5)
    watching.cancel()
    assert [row.repository.name for row in page.rows] == names[:5]
    assert (page.has_previous, page.has_next) == (False, True)
    # The routings of a page of repositories are needed twice.
    assert sum(steps) >= len(names)
    assert max(steps) <= 2 * 4 + 5
