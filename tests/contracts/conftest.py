"""The stores that every contract is held against: a backend joins by a line in `BACKENDS`.

Each is held alone, with the cache of one process before it, and with the cache in Redis.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.interface import Store
from tests.contracts.cached import cached

BACKENDS = {"sqlite": open_store}
CACHES = ("no cache", "cache in process", "cache in redis")


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path, cache: str) -> AsyncIterator[Store]:
    opened = await BACKENDS[request.param](tmp_path)
    if cache == "no cache":
        yield opened
        await opened.close()
        return
    in_redis = cache == "cache in redis"
    async with cached(opened, request.getfixturevalue("redis_url") if in_redis else None) as before:
        yield before
