"""The stores that every contract is held against: a backend joins by a line in `BACKENDS`."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Store


@asynccontextmanager
async def es(request, tmp_path):
    url = request.getfixturevalue("elasticsearch_url")
    prefix = "t" + uuid.uuid4().hex[:8]
    s = await ElasticsearchStore.open([url], prefix=prefix)
    yield s
    c = s._cluster.connection
    await c.request("DELETE", f"/{prefix}-*")
    for name in s._cluster.layout.templates:
        await c.request("DELETE", f"/_index_template/{name}")
    await s.close()


@asynccontextmanager
async def sq(request, tmp_path):
    s = await open_store(tmp_path)
    yield s
    await s.close()


BACKENDS = {"sqlite": sq, "es": es}


@pytest.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with BACKENDS[request.param](request, tmp_path) as opened:
        yield opened
