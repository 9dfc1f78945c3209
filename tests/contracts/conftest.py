"""The stores that every contract is held against: a backend joins by a line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexing.store import open_store
from indexing.store.interface import Store

# Where each backend's stores are, by the name of the fixture that gives an empty one.
BACKENDS = {"sqlite": "tmp_path", "elasticsearch": "elasticsearch_place"}


@pytest.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    opened = await open_store(request.getfixturevalue(BACKENDS[request.param]))
    yield opened
    await opened.close()
