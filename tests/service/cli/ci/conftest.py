"""The command `mergewatch ci junit`, and the service that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indexing.models.keys import Scope
from service.cli import main
from service.config.settings import Settings
from tests.service.cli.ci.jobs import JobCheck, write
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path / "data", ingest=True)):
        opened.key = await opened.new_key(Scope.INGEST)
        yield opened


@pytest.fixture
def check(settings: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobCheck:
    """Run the command over reports of these cases against the service of the environment."""
    monkeypatch.chdir(tmp_path)

    async def run(*arguments: str, cases: tuple[str, ...] = (), code: int = 0) -> Result:
        for number, case in enumerate(cases):
            write(f"{number}.xml", f"<testsuite>{case}</testsuite>")
        words = ["ci", "junit", "--repository=acme/widgets", "--pipeline=ci", "--job=unit"]
        words += ["--run-id=1", "--branch=topic", "--commit=1"]
        result = await asyncio.to_thread(
            CliRunner().invoke,
            main,
            [*words, *arguments, *(f"{number}.xml" for number in range(len(cases)))],
            catch_exceptions=False,
        )
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture(autouse=True)
def service(door: FrontDoor, settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERGEWATCH_URL", door.base)
    monkeypatch.setenv("MERGEWATCH_TOKEN", door.key)
