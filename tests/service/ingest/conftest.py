"""Fixtures: a service that accepts uploads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from indexing.models.keys import Scope
from service.config.settings import Settings
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor


@pytest.fixture
async def open_(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    """A service over SQLite that accepts uploads, with a key that may do everything."""
    async for opened in open_door(replace(Settings(data_dir=tmp_path), ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened
