"""The store that notifications are sent from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.interface import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path)
    yield opened
    await opened.close()
