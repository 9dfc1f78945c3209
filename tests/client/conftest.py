"""A real service with some tests in it, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from mergewatch.client import AsyncClient
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.client.serving import NAMES
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        run = make_run("1")
        executions = make_executions(
            run, [(NAMES[0], Conclusion.FAILED), *((name, Conclusion.PASSED) for name in NAMES[1:])]
        )
        await opened.store.write_results(WIDGETS, {run: executions})
        await opened.store.refresh_tests(NOON)
        yield opened


@pytest.fixture
async def client(door: FrontDoor) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(door.base, door.key) as opened:
        yield opened
