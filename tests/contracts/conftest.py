"""The stores that every contract is held against: a backend joins by a line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.interface import Store

BACKENDS = {"sqlite": open_store}


@pytest.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = await BACKENDS[request.param](tmp_path)
    yield opened
    await opened.close()
