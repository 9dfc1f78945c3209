"""The stores that every contract test runs on; add a store as a line of `STACKS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from indexing.store.interface import Store
from tests.contracts.cached import cached
from tests.new_stores import open_new_store

# The fixture that provides an empty place for the store, and where the cache in front of it is. A
# cached store also asks the store itself, so it needs no run of its own; `tests.contracts.cached`
# asserts that both agree. The route tests cover the in-process cache over Elasticsearch.
STACKS = {
    "sqlite, cached in process": ("tmp_path", "in process"),
    "sqlite, cached in redis": ("tmp_path", "in redis"),
    "elasticsearch, cached in redis": ("elasticsearch_place", "in redis"),
    "elasticsearch": ("elasticsearch_place", "nowhere"),
}
# All stacks except the one that only the contracts below use.
EVERY_READ = [name for name in STACKS if name != "elasticsearch"]

# For contracts that no cache changes: it holds none of their answers (the event log), or knows
# nothing of what it holds (what a pattern matches). Each store, and one cache that passes it on.
on_stores_and_one_cache = pytest.mark.parametrize(
    "store", ["sqlite, cached in process", "elasticsearch"], indirect=True
)

# The attribute in which Hypothesis keeps a test's settings; they cannot be parametrised.
SETTINGS = "_hypothesis_internal_use_settings"


@pytest.fixture(autouse=True)
def share_of_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run half of a property's examples on Elasticsearch, where each needs several loads."""
    call = getattr(request.node, "callspec", None)
    chosen: settings | None = getattr(request.function, SETTINGS, None)
    if chosen is None or call is None or "elasticsearch" not in call.params.get("store", ""):
        yield
        return
    setattr(request.function, SETTINGS, settings(chosen, max_examples=chosen.max_examples // 2))
    yield
    setattr(request.function, SETTINGS, chosen)


@pytest.fixture(params=EVERY_READ)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    place, cache = STACKS[request.param]
    opened = await open_new_store(request.getfixturevalue(place))
    if cache == "nowhere":
        yield opened
        await opened.close()
        return
    redis_url = request.getfixturevalue("redis_url") if cache == "in redis" else None
    async with cached(opened, redis_url) as before:
        yield before
