"""The counts of the event log: what a page says if there is nothing to count, or no answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp
from service.http.problems import Problem
from service.ui.pages import events
from tests.builders import NOON, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.signed_in import sign_in
from tests.service.ui.visitor import Visitor, visit
from tests.waiting import until

# A part of the range of the histogram, which has two links more then.
PART = (
    f"received_from={format_timestamp(after(days=-1))}"
    f"&around_from={format_timestamp(after(days=-7))}&around_to={format_timestamp(NOON)}"
)


@pytest.fixture(autouse=True)
def patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_SECONDS", 20.0)
    monkeypatch.setattr(events, "COUNT_SECONDS", 20.0)


@pytest.mark.parametrize(
    "query",
    ["received_from=2026-08-30&received_to=2026-08-30", "received_from=2027-01-01"],
    ids=["no length", "future"],
)
async def test_a_range_without_time_is_not_taken_for_slow_counting(
    door: FrontDoor, query: str
) -> None:
    await load_log(door.store)
    client = await sign_in(door, Scope.READ)
    page = (await client.get(f"{LOG}?{query}")).body.decode()
    assert "There is no time in this range" in page
    assert "Counting took too long" not in page
    assert '<h2 id="hist">Events</h2>' in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", "No event in this range"),
        ("last=1d", "No event in this range"),
        ("received_from=2026-08-01&received_to=2026-08-02", "No event in this range"),
        ("pull_request=17", "No event matches"),
    ],
)
async def test_a_range_without_events_is_not_taken_for_an_empty_log(
    door: FrontDoor, query: str, shown: str
) -> None:
    await door.store.write_events([make_event(1, after(days=-8), pull_request=17)])
    client = await sign_in(door, Scope.READ)
    page = (await client.get(f"{LOG}?{query}")).body.decode()
    assert shown in page
    assert "No event yet" not in page
    assert ("matches these filters" in page) == (query == "pull_request=17")
    assert 'href="?last=90d"' in page


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("width", [1280, 390])
async def test_years_leave_the_times_of_the_axis_apart(
    browser: Browser, site: FrontDoor, width: int
) -> None:
    await load_log(site.store)
    options = {"viewport": {"width": width, "height": 800}}
    async with visit(browser, site, **options) as visitor:
        await visitor.sign_in()
        await visitor.go(f"{LOG}?received_from=2023-12-30")
        boxes = [
            box
            for tick in await visitor.page.locator(".ticks span").all()
            if (box := await tick.bounding_box()) is not None
        ]
        assert len(boxes) == (5 if width == 1280 else 3)
        rights = [box["x"] + box["width"] for box in boxes]
        assert all(right + 4 < box["x"] for right, box in zip(rights, boxes[1:], strict=False))


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("is_answered", [True, False], ids=["refused", "no answer"])
async def test_nothing_says_that_it_counts_after_late_counts_failed(
    site: FrontDoor, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    has_shown = asyncio.Event()

    async def fail(*_: object) -> None:
        await has_shown.wait()
        raise Problem(503, "the service is overloaded")

    async def answer(route: Route) -> None:
        has_shown.set()
        await (route.continue_() if is_answered else route.abort())

    monkeypatch.setattr(events, "_count_all", fail)
    monkeypatch.setattr(events, "FIRST_SECONDS", 0.0)
    await load_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    await page.route("**/events/counts*", answer)
    visitor.refusals += 1
    await visitor.go(LOG)
    await expect(page.locator("#narrow").get_by_text("There are no counts")).to_be_visible()
    await expect(page.get_by_text("Counting").locator("visible=true")).to_have_count(0)
    told = "Not just now" if is_answered else "The service did not answer"
    await expect(page.get_by_role("alert")).to_contain_text(told)
    # The browser reports a request without an answer in one line, and htmx in two.
    await until(lambda: len(visitor.wrong) == (1 if is_answered else 3))
    visitor.wrong[:] = [each for each in visitor.wrong if not each.startswith("console: htmx:")]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("width", "query"),
    [(360, ""), (390, ""), (600, ""), (768, PART)],
    ids=["360", "390", "600", "a part at 768"],
)
async def test_late_counts_and_scripts_move_nothing_on_narrow_screens(
    browser: Browser, site: FrontDoor, monkeypatch: pytest.MonkeyPatch, width: int, query: str
) -> None:
    has_shown, count = asyncio.Event(), events._count_all

    async def wait(*asked: Any) -> tuple[Any, Any]:
        await has_shown.wait()
        return await count(*asked)

    monkeypatch.setattr(events, "_count_all", wait)
    monkeypatch.setattr(events, "FIRST_SECONDS", 0.0)
    await load_log(site.store)
    async with visit(browser, site, viewport={"width": width, "height": 800}) as visitor:
        page, results = visitor.page, visitor.page.locator("#results")
        started = asyncio.Event()

        async def hold(route: Route) -> None:
            await started.wait()
            await route.continue_()

        await visitor.sign_in()
        await page.route("**/events-live.js*", hold)
        await page.goto(f"{site.base}{LOG}?{query}", wait_until="commit")
        await expect(results).to_be_visible()
        before = await results.bounding_box()
        started.set()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        assert await results.bounding_box() == before
        has_shown.set()
        await expect(page.locator("#bars")).to_be_visible()
        assert await results.bounding_box() == before
