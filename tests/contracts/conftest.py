"""The stores that every contract is held against: one joins by a line in `STACKS`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexing.store import open_store
from indexing.store.interface import Store
from tests.contracts.cached import cached

# Each store alone and with a cache before it: the fixture that gives an empty place for one, and
# where the cache is. The cache of a process over Elasticsearch is held by the routes' tests.
STACKS = {
    "sqlite": ("tmp_path", "nowhere"),
    "sqlite, cached in process": ("tmp_path", "in process"),
    "sqlite, cached in redis": ("tmp_path", "in redis"),
    "elasticsearch": ("elasticsearch_place", "nowhere"),
    "elasticsearch, cached in redis": ("elasticsearch_place", "in redis"),
}


@pytest.fixture(params=STACKS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    place, cache = STACKS[request.param]
    opened = await open_store(request.getfixturevalue(place))
    if cache == "nowhere":
        yield opened
        await opened.close()
        return
    redis_url = request.getfixturevalue("redis_url") if cache == "in redis" else None
    async with cached(opened, redis_url) as before:
        yield before
