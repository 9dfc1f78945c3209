"""The store that notifications are sent from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.store.interface import Store
from tests.new_stores import open_new_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_new_store(tmp_path)
    yield opened
    await opened.close()
