"""The event log in a real browser: what happened to a pull request, when, and what happens now."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from service.config.settings import Settings
from service.ui.pages import events
from service.ui.queries import MAX_QUERY_LENGTH
from tests.builders import NOON, WIDGETS, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, QUEUED, REASON, load_hostile_log, load_log
from tests.service.ui.visitor import MAX_PAGE_BYTES, Visitor, visit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("quick_log"),
]

ROWS = "#results tr.entry"


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_what_happened_to_a_pull_request_takes_two_clicks(
    site: FrontDoor, visitor: Visitor, stack: Settings
) -> None:
    await load_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    await page.get_by_role("link", name="Events").click()
    await page.locator(ROWS).get_by_role("link", name=f"#{QUEUED}").first.click()
    await expect(page.locator(ROWS)).to_have_count(8)
    await expect(page.locator(ROWS).get_by_role("link", name=f"#{QUEUED}")).to_have_count(8)
    # The URL contains the whole view: another user sees the same.
    assert f"pull_request={QUEUED}" in page.url
    await page.reload()
    await expect(page.locator(ROWS)).to_have_count(8)


async def test_facets_include_exclude_and_reset(site: FrontDoor, visitor: Visitor) -> None:
    await load_log(site.store)
    page, rows = visitor.page, visitor.page.locator(ROWS)
    await visitor.sign_in()
    await visitor.go(LOG)
    failures = page.locator("#narrow .value-row", has_text="failure")
    await expect(failures.locator(".count")).to_have_text("24")
    await failures.get_by_role("link", name="failure", exact=True).click()
    await expect(rows).to_have_count(24)
    await rows.first.locator("summary").click()
    await expect(page.locator(".detail .tree").first).to_contain_text("ci/unit")
    await expect(page.locator(".detail .tree").first).to_contain_text(REASON)
    await page.get_by_role("link", name="Leave out merge queue").click()
    await expect(rows).to_have_count(12)
    await page.locator(".chip", has_text="outcome").click()
    await expect(page.locator("#narrow .excluded")).to_contain_text("merge queue")
    await expect(page.locator("h1 + span")).to_have_text("36 in this range")
    await page.get_by_role("link", name="Clear").click()
    await expect(page.locator("h1 + span")).to_have_text("72 in this range")
    await page.get_by_role("link", name="Older").click()
    await expect(rows).to_have_count(22)
    await page.get_by_role("link", name="Newer").click()
    await expect(rows).to_have_count(50)


async def test_a_part_of_the_histogram_is_chosen_by_mouse_and_by_keyboard(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_log(site.store)
    page, rows, keyboard = visitor.page, visitor.page.locator(ROWS), visitor.page.keyboard
    await visitor.sign_in()
    await visitor.go(LOG)
    box = await page.locator("#bars").bounding_box()
    assert box is not None
    # The last three of 84 bars; the newest event is an hour old, and each bar has one.
    middle = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] * 83.5 / 84, middle)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 81.5 / 84, middle, steps=4)
    await page.mouse.up()
    await page.wait_for_url("**received_from=2026-09-01T06*received_to=2026-09-01T12*")
    await expect(rows).to_have_count(3)
    # The histogram still shows the whole range.
    await expect(page.locator("h1 + span")).to_have_text("3 of 72 in this range")
    await expect(page.locator(".histogram .in")).to_have_count(3)

    await page.locator('.histogram a[tabindex="0"]').focus()
    await keyboard.press("ArrowLeft")
    await keyboard.press("Shift+ArrowLeft")
    await expect(page.locator("#brush-said")).to_contain_text("2 bars; Enter shows them")
    await keyboard.press("Enter")
    await expect(rows).to_have_count(2)
    await page.locator('.histogram a[tabindex="0"]').focus()
    await keyboard.press("Escape")
    await expect(page.locator("h1 + span")).to_have_text("72 in this range")


async def test_without_scripts_bars_rows_and_filters_work(
    browser: Browser, site: FrontDoor
) -> None:
    await load_log(site.store)
    async with visit(browser, site, java_script_enabled=False) as visitor:
        page, rows = visitor.page, visitor.page.locator(ROWS)
        await visitor.sign_in()
        await visitor.go(LOG)
        await page.locator(".histogram a").last.click()
        await expect(rows).to_have_count(1)
        await visitor.go(LOG)
        await rows.nth(1).locator("summary").click()
        await expect(page.locator(".detail").nth(1)).to_contain_text("ci/unit")
        await expect(page.locator(".detail").nth(1)).to_be_visible()
        await page.locator("#pull").fill(f"#{QUEUED}")
        await page.get_by_role("button", name="Apply").click()
        await expect(rows).to_have_count(8)
        await page.get_by_label("From").fill("2026-08-31 10:00")
        await page.get_by_label("to", exact=True).fill("now")
        await page.get_by_role("button", name="Apply").click()
        await expect(rows).to_have_count(2)


async def test_a_wrong_filter_keeps_what_was_typed_and_says_what_is_wrong(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(f"{LOG}?outcome=failure")
    typed = {
        "Pull request": "#44x",
        "Base branch": "main",
        "From": "Tuesday",
        "to": "2026-08-31 10:61",
    }
    for label, text in typed.items():
        await page.get_by_role("textbox", name=label, exact=True).fill(text)
    visitor.refusals += 1
    async with page.expect_response(f"**{LOG}?*") as answered:
        await page.get_by_role("button", name="Apply").click()
    assert (await answered.value).status == 422
    for label, text in typed.items():
        await expect(page.get_by_role("textbox", name=label, exact=True)).to_have_value(text)
    chip = page.locator(".chip", has_text="pull request")
    await expect(chip).to_have_text(re.compile(r"pull request\s+#44x"))
    number = page.get_by_role("textbox", name="Pull request", exact=True)
    await expect(number).to_have_accessible_description(
        "must be the number of a pull request, such as 17"
    )
    start = page.get_by_role("textbox", name="From", exact=True)
    await expect(start).to_have_accessible_description(
        "must be a date or a time in UTC, such as 2026-09-01 or 2026-09-01 14:30"
    )
    assert await visitor.find_violations() == []
    await number.fill(str(QUEUED))
    await start.fill("2026-08-30")
    await page.get_by_role("textbox", name="to", exact=True).fill("now")
    await page.get_by_role("button", name="Apply").click()
    # The filter that the form does not show is kept too.
    await expect(page.locator(".chip", has_text="outcome")).to_be_visible()
    await expect(page.locator("#results")).to_contain_text("No event matches")


async def test_what_arrives_shows_up_unless_paused_and_moves_nothing_that_is_read(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_log(site.store)
    page, rows = visitor.page, visitor.page.locator(ROWS)
    await visitor.sign_in()
    await visitor.go(f"{LOG}?pull_request={QUEUED}")
    await expect(page.locator("#live")).to_have_text("Live")

    async def send(number: int, pull: int = QUEUED) -> None:
        # A closed row has open subtrees: nobody reads them.
        metadata = {"queue": {"name": "default"}}
        event = make_event(
            number, NOON, event_type="action.merge", pull_request=pull, metadata=metadata
        )
        await site.store.write_events([event])

    site.clock.now = after(minutes=1)
    await send(2_000, pull=5)
    await send(2_001)
    await expect(rows).to_have_count(9, timeout=15_000)
    await expect(page.locator("tr.new")).to_have_count(1)
    await send(2_004)
    await expect(rows).to_have_count(10, timeout=15_000)
    await rows.nth(1).locator("td.time > details > summary").click()
    await send(2_002)
    await page.get_by_role("button", name="Show 1 new event").click(timeout=15_000)
    await expect(rows).to_have_count(11)
    await expect(page.locator("details[open] .toggle")).to_have_count(1)
    await page.get_by_role("button", name="Pause").click()
    await send(2_003)
    await expect(page.locator("#live")).to_have_text("Paused")
    await page.get_by_role("button", name="Resume").click()
    await expect(rows).to_have_count(12)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
async def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browser: Browser, site: FrontDoor, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    async with visit(browser, site, **options) as visitor:
        await load_log(site.store)
        await visitor.sign_in()
        found = {}
        for query in ("", "?outcome=failure&not_trigger=x&event=998", "?pull_request=1"):
            await visitor.go(LOG + query)
            for details in (await visitor.page.locator(".toggle, .side summary").all())[:4]:
                await details.click()
            found[query] = await visitor.find_violations()
            shown = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert shown <= width, query
        assert {query: wrong for query, wrong in found.items() if wrong} == {}


async def test_hostile_events_come_out_as_text_within_bounds(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_hostile_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    weights = await visitor.weigh()
    long = f"{LOG}?trigger={'x' * MAX_QUERY_LENGTH}"
    wrong = (f"{LOG}?received_from=%3Cscript%3E", f"{LOG}?pull_request=%22onx=", long)
    for path in (
        LOG,
        f"{LOG}?event=2",
        f"{LOG}?event=3",
        f"{LOG}?event=4",
        f"{LOG}?trigger=%22%3E%3Cscript%3Ealert(7)%3C/script%3E&base_ref=%22onx=%27",
        f"{LOG}?received_to=2026-09-01&around_from=%3Cscript%3E&around_to=%22onx=",
        *wrong,
    ):
        weights.clear()
        visitor.refusals += path in wrong
        await visitor.go(path)
        await page.wait_for_function("document.readyState === 'complete'")
        assert await visitor.find_injected() == [], path
        assert "\u202e" not in await page.locator("body").inner_text()
        assert sum(weights) <= MAX_PAGE_BYTES, path
        assert await page.locator("*").count() < 12_000, path
        assert await page.evaluate("document.documentElement.scrollWidth") == 1280, path
    await visitor.go(LOG)
    await page.locator(f"{ROWS} summary").nth(1).click()
    await page.locator(".detail").nth(1).get_by_role("link", name="Show all of it").click()
    text = await page.locator("tr.entry:has(details[open]) + tr.detail").inner_text()
    assert re.search("alert", text)


async def test_an_empty_log_says_what_to_do(site: FrontDoor, visitor: Visitor) -> None:
    await site.store.ensure_repository(WIDGETS)
    await visitor.sign_in()
    await visitor.go(LOG)
    await expect(visitor.page.get_by_text("mergewatch ingest events")).to_be_visible()
    await expect(visitor.page.locator("#live")).to_have_text("Live")


def count_late_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first page wait for its counts in vain."""
    count, counted = events._count_all, False

    async def count_later(*asked: Any) -> tuple[Any, Any]:
        nonlocal counted
        if not counted:
            counted = True
            await asyncio.Event().wait()
        return await count(*asked)

    monkeypatch.setattr(events, "_count_all", count_later)
    monkeypatch.setattr(events, "FIRST_SECONDS", 0.0)


async def test_counts_that_take_long_come_after_the_events_and_move_nothing(
    site: FrontDoor, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_late_once(monkeypatch)
    counting = asyncio.Event()

    async def hold(route: Route) -> None:
        await counting.wait()
        await route.continue_()

    await visitor.page.route("**/events/counts*", hold)
    await load_log(site.store)
    page, rows = visitor.page, visitor.page.locator(ROWS)
    await visitor.sign_in()
    await visitor.go(LOG)
    await expect(rows).to_have_count(50)
    await expect(page.get_by_text("Counting…").first).to_be_visible()
    # The script of the page has run.
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    before = await page.locator("#results").bounding_box()
    counting.set()
    bars = page.locator("#bars a")
    await expect(bars.last).to_be_visible()
    assert await page.locator("#results").bounding_box() == before
    await expect(page.locator("h1 + span")).to_have_text("72 in this range")
    # They can be used as if they had come with the page.
    await expect(bars.first).to_have_attribute("tabindex", "-1")
    await page.get_by_role("link", name="Leave out merge queue").click()
    await expect(page.locator("#narrow .excluded")).to_contain_text("merge queue")


async def test_without_scripts_late_counts_are_one_click_away(
    browser: Browser, site: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_late_once(monkeypatch)
    await load_log(site.store)
    async with visit(browser, site, java_script_enabled=False) as visitor:
        page = visitor.page
        await visitor.sign_in()
        await visitor.go(LOG)
        await page.get_by_role("link", name="Show the page with its counts").click()
        await expect(page.locator("h1 + span")).to_have_text("72 in this range")
        await expect(page.locator(ROWS)).to_have_count(50)


async def test_the_page_with_its_counts_follows_the_log(site: FrontDoor, visitor: Visitor) -> None:
    await load_log(site.store)
    page, rows = visitor.page, visitor.page.locator(ROWS)
    await visitor.sign_in()
    await visitor.go(f"/ui/acme/widgets/events/counts?pull_request={QUEUED}")
    await expect(rows).to_have_count(8)
    await expect(page.locator("#live")).to_have_text("Live")
    site.clock.now = after(minutes=1)
    event = make_event(2_000, NOON, event_type="action.merge", pull_request=QUEUED)
    await site.store.write_events([event])
    await expect(rows).to_have_count(9, timeout=15_000)


async def test_the_link_to_late_counts_keeps_the_page_and_the_open_row(
    browser: Browser, site: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_log(site.store)
    async with visit(browser, site, java_script_enabled=False) as visitor:
        page, rows = visitor.page, visitor.page.locator(ROWS)
        await visitor.sign_in()
        await visitor.go(LOG)
        await page.get_by_role("link", name="Older").click()
        await expect(rows).to_have_count(22)
        name = await rows.nth(1).get_attribute("id")
        assert name is not None
        count_late_once(monkeypatch)
        await page.goto(f"{page.url}&event={name.removeprefix('e')}")
        await page.get_by_role("link", name="Show the page with its counts").click()
        await expect(page.locator("h1 + span")).to_have_text("72 in this range")
        await expect(rows).to_have_count(22)
        await expect(page.locator(f"#{name} details[open]")).to_have_count(1)


async def test_the_page_with_its_counts_says_if_counting_takes_too_long(
    browser: Browser, site: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_log(site.store)
    async with visit(browser, site, java_script_enabled=False) as visitor:
        await visitor.sign_in()
        monkeypatch.setattr(events, "COUNT_SECONDS", 0.0)
        await visitor.go("/ui/acme/widgets/events/counts")
        await expect(visitor.page.locator(ROWS)).to_have_count(50)
        await expect(visitor.page.get_by_text("Counting took too long")).to_be_visible()
