"""Fixtures: a service with the dashboard, a real Chromium, and a visitor who notices everything."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from indexing.models.keys import Scope
from indexing.store import ElasticsearchPlace
from service.config.settings import Settings
from service.handlers import event_stream
from service.streaming import hub, lasting_access
from service.ui.pages import events
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.visitor import Visitor, visit

# The first that is installed is used. The headless shell has the same engine, without the features
# of a desktop browser: it takes about half the CPU time.
BROWSERS = ("chromium-headless-shell", "chromium")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(params=["sqlite"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return the default stack: the API below is tested on every stack. A test may choose more."""
    chosen = Settings(data_dir=tmp_path)
    if request.param == "elasticsearch":
        place: ElasticsearchPlace = request.getfixturevalue("elasticsearch_place")
        chosen = replace(chosen, elasticsearch_url=place.urls, elasticsearch_prefix=place.prefix)
    return chosen


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(without_servers: None) -> AsyncIterator[Browser]:
    """Yield one browser for all tests of this process."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"the tests of the dashboard need a Debian package: {' or '.join(BROWSERS)}")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS])
        yield opened
        await opened.close()


@pytest.fixture
def quick_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let live pages learn of events and of the end of their session in a moment.

    A busy machine counts late; the tests of late counts set these times themselves.
    """
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(events, "FIRST_SECONDS", 20.0)
    monkeypatch.setattr(events, "COUNT_SECONDS", 20.0)


@pytest_asyncio.fixture(loop_scope="session")
async def site(stack: Settings) -> AsyncIterator[FrontDoor]:
    """A service, and a key that reads and quarantines; on the event loop of the browser."""
    async for opened in open_door(stack):
        opened.key = await opened.add_key(name="on call", scope=Scope.QUARANTINE)
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser, site: FrontDoor) -> AsyncIterator[Visitor]:
    """A person with a browser window, who is not signed in."""
    async with visit(browser, site) as visitor:
        yield visitor
