"""The live event log while the service refuses its requests, and afterwards."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Response, Route, expect

from indexing.errors import StoreUnavailableError
from tests.builders import after
from tests.service.front_door import FrontDoor
from tests.service.ui.followed import PATIENCE, VIEW, follow, merged
from tests.service.ui.logged import load_log
from tests.service.ui.visitor import Visitor
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("quick_log"),
]


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


async def test_a_tail_that_is_refused_is_opened_again(site: FrontDoor, visitor: Visitor) -> None:
    page, live = visitor.page, visitor.page.locator("#live")
    statuses = [502, 429]

    async def refuse(route: Route) -> None:
        if statuses:
            await route.fulfill(status=statuses.pop(0), body="try later")
        else:
            await route.continue_()

    await load_log(site.store)
    await visitor.sign_in()
    refused = count_refusals(visitor)
    await page.route("**/events/stream", refuse)
    await visitor.go(VIEW)
    await expect(live).to_have_text("Connection lost")
    site.clock.now = after(minutes=1)
    # Rows are read meanwhile.
    await site.store.write_events([merged(2_000)])
    rows = page.locator("#results tr.entry")
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    await expect(live).to_have_text("Live", timeout=PATIENCE)
    await site.store.write_events([merged(2_001)])
    await expect(rows).to_have_count(10, timeout=PATIENCE)
    assert [each.status for each in refused] == [502, 429]


# Time passes a hundred times as fast, without jitter; `waits` has the delays in milliseconds.
HURRY = """
  Math.random = () => 0.5;
  window.waits = [];
  const wait = window.setTimeout;
  window.setTimeout = (act, delay) => {
    window.waits.push(delay);
    return wait(act, delay / 100);
  };
"""


async def test_attempts_to_open_a_tail_become_rarer_but_do_not_end(
    site: FrontDoor, visitor: Visitor
) -> None:
    page, tried = visitor.page, 0

    async def refuse(route: Route) -> None:
        nonlocal tried
        tried += 1
        await route.fulfill(status=502, body="try later")

    await load_log(site.store)
    await visitor.sign_in()
    count_refusals(visitor)
    await page.add_init_script(HURRY)
    await page.route("**/events/stream", refuse)
    await visitor.go(VIEW)
    await until(lambda: tried == 8)
    waits = await page.evaluate("waits.filter((delay) => delay >= 2_000)")
    assert waits[:7] == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    # Who resumes the tail need not wait for the next attempt.
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator("#live")).to_have_text("Paused")
    await page.unroute("**/events/stream")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("#live")).to_have_text("Live")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (204, "Signed out"),
        (403, "Not live: reload the page"),
        (404, "Not live: reload the page"),
    ],
)
async def test_a_tail_gives_up_if_access_has_ended(
    site: FrontDoor, visitor: Visitor, status: int, told: str
) -> None:
    page, tried = visitor.page, 0

    async def refuse(route: Route) -> None:
        nonlocal tried
        tried += 1
        await route.fulfill(status=status if "?" in route.request.url else 502)

    await load_log(site.store)
    await visitor.sign_in()
    count_refusals(visitor)
    await page.clock.install()
    await page.route("**/events/stream", refuse)
    await visitor.go(VIEW)
    await expect(page.locator("#live")).to_have_text("Connection lost")
    if status == 204:
        await page.context.clear_cookies()
    else:
        await page.route("**/events?*", refuse)
    await page.clock.fast_forward(3_000)
    await expect(page.locator("#live")).to_have_text(told)
    before = tried
    await page.clock.fast_forward(150_000)
    # Requests are sent in order.
    await page.evaluate("fetch('/ui/_/app.js').then((answer) => answer.text())")
    assert tried == before
    await expect(page.locator("#live")).to_have_text(told)
