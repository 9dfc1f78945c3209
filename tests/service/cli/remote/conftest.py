"""A running service with a few tests and events, and commands that read from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from indexing.models.executions import Conclusion
from service.cli import main
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor

HOSTILE = "suite.\x1b[31mred\u202e\n[bold]\x9b\U000e0041"
SHOWN = r"suite.\x1b[31mred\u202e\n[bold]\x9b\U000e0041"
MESSAGE = "expected 1\x1b]0;title\x07 of 2\nsecond line"
OF_WIDGETS = ("--repository", "acme/widgets")

Run = Callable[..., Coroutine[Any, Any, Result]]


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path)):
        run = make_run("1")
        results = [("suite.ok", Conclusion.PASSED), (HOSTILE, Conclusion.FAILED)]
        executions = make_executions(run, results, failure_type="E", failure_message=MESSAGE)
        await opened.store.write_results(WIDGETS, {run: executions})
        await opened.store.refresh_tests(NOON)
        await opened.store.write_events(
            [
                make_event(n, after(minutes=n), pull_request=n or None, trigger=HOSTILE)
                for n in range(120)
            ]
        )
        yield opened


@pytest.fixture
def run(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a thread, as the service runs in this one."""
    monkeypatch.setenv("MERGEWATCH_URL", door.base)
    monkeypatch.setenv("MERGEWATCH_TOKEN", door.key)

    async def command(*words: str, code: int = 0) -> Result:
        result = await asyncio.to_thread(CliRunner().invoke, main, words, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return command
