"""The live event log while the service refuses its requests, and afterwards."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Response, expect

from indexing.errors import StoreUnavailableError
from service.handlers import event_stream
from service.streaming import hub
from service.ui.pages import events
from tests.service.front_door import FrontDoor
from tests.service.ui.test_event_updates import PATIENCE, follow, merged
from tests.service.ui.visitor import Visitor

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(events, "FIRST_SECONDS", 20.0)
    monkeypatch.setattr(events, "COUNT_SECONDS", 20.0)


def count_refusals(visitor: Visitor) -> list[Response]:
    """Return a list of the refused responses, which grows, and let the visitor expect them."""
    refused: list[Response] = []

    def note(response: Response) -> None:
        if response.status >= 400:
            refused.append(response)
            visitor.refusals += 1

    visitor.page.on("response", note)
    return refused


async def test_rows_that_cannot_be_read_are_not_called_live(
    site: FrontDoor, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the store is being restarted")

    page, live = visitor.page, visitor.page.locator("#live")
    await page.set_viewport_size({"width": 390, "height": 800})
    rows = await follow(site, visitor)
    refused = count_refusals(visitor)
    with monkeypatch.context() as patch:
        patch.setattr(site.reader, "list_events", fail)
        await site.store.write_events([merged(2_000)])
        await expect(live).to_contain_text("Not up to date", timeout=PATIENCE)
        await expect(live).to_have_class("live lost")
        [answer] = refused
        assert answer.status == 503
        request_id = await answer.header_value("X-Request-Id")
        said = rf"; last read \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC · request {request_id}$"
        await expect(live).to_have_text(re.compile(said))
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert await visitor.find_violations() == []
    await expect(live).to_have_text("Live", timeout=PATIENCE)
    await expect(live).to_have_class("live ")
    await expect(rows).to_have_count(9)
