"""A stand-in code host that knows one token, and a service that uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.config.settings import Settings
from tests.service.auth.code_host.tokens import TOKEN
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.source_host import SourceHost, open_host


@pytest.fixture
async def host() -> AsyncIterator[SourceHost]:
    async with open_host() as opened:
        opened.add("Acme/Widgets", TOKEN)
        yield opened


@pytest.fixture
async def door(tmp_path: Path, host: SourceHost) -> AsyncIterator[FrontDoor]:
    settings = Settings(data_dir=tmp_path, host_api_url=host.base)
    async for opened in open_door(settings):
        yield opened
