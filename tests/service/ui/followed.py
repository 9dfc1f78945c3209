"""The event log in a browser, as it is followed live."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Locator, expect

from indexing.models.events import StoredEvent
from tests.builders import NOON, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, QUEUED, load_log
from tests.service.ui.visitor import Visitor

VIEW = f"{LOG}?pull_request={QUEUED}"
# The milliseconds in which a change shows up, even on a busy machine.
PATIENCE = 15_000


def merged(number: int, **about: Any) -> StoredEvent:
    """Make an event of the pull request in the view."""
    return make_event(number, NOON, event_type="action.merge", pull_request=QUEUED, **about)


async def follow(site: FrontDoor, visitor: Visitor, path: str = VIEW) -> Locator:
    """Open the log, and return its rows once it is live."""
    await load_log(site.store)
    await visitor.sign_in()
    await visitor.go(path)
    await expect(visitor.page.locator("#live")).to_have_text("Live")
    site.clock.now = after(minutes=1)
    return visitor.page.locator("#results tr.entry")
