"""The live event log in a real browser: what it loads, counts and offers."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from tests.builders import NOON, after, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.followed import PATIENCE, VIEW, follow, merged
from tests.service.ui.logged import LOG, QUEUED, load_log
from tests.service.ui.visitor import Visitor, visit
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("quick_log"),
]


async def test_what_arrives_before_the_tail_is_open_shows_up(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_log(site.store)
    page, rows, has_arrived = (
        visitor.page,
        visitor.page.locator("#results tr.entry"),
        asyncio.Event(),
    )
    held = 0

    async def hold(route: Route) -> None:
        nonlocal held
        held += 1
        await has_arrived.wait()
        await route.continue_()

    await visitor.sign_in()
    await page.route(re.compile(r"/events[^/]*\.js"), hold)
    await page.goto(f"{site.base}{VIEW}", wait_until="commit")
    await expect(rows).to_have_count(8)
    site.clock.now = after(minutes=1)
    await site.store.write_events([make_event(2_001, NOON, pull_request=QUEUED)])
    await until(lambda: held == 2)
    has_arrived.set()
    await expect(rows).to_have_count(9, timeout=PATIENCE)


async def test_a_number_with_zeros_before_it_is_followed(site: FrontDoor, visitor: Visitor) -> None:
    rows = await follow(site, visitor, f"{LOG}?pull_request=00{QUEUED}")
    await site.store.write_events([merged(2_000)])
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    chosen = visitor.page.locator("#narrow .value-row", has_text=f"#{QUEUED}")
    await expect(chosen.locator(".pick")).to_have_attribute("aria-current", "true")


async def test_an_event_with_the_id_of_an_earlier_one_shows_up(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor)
    name = await rows.first.get_attribute("id")
    assert name is not None
    await site.store.write_events([merged(int(name.removeprefix("e")))])
    await expect(rows).to_have_count(9, timeout=PATIENCE)


async def test_only_events_that_match_the_view_are_offered(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor, f"{VIEW}&base_ref=main&not_trigger=nobody")
    await rows.first.locator("td.time summary").click()
    others = [merged(2_000, base_ref="next"), merged(2_001, base_ref="main", trigger="nobody")]
    await site.store.write_events([*others, merged(2_002, base_ref="main")])
    button = visitor.page.locator("#arrived button")
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    await button.click()
    await expect(rows).to_have_count(9)
    await expect(button).to_be_hidden()


async def test_two_clicks_send_one_request_for_new_events(
    site: FrontDoor, visitor: Visitor
) -> None:
    page, held, most, may_answer = visitor.page, 0, 0, asyncio.Event()

    async def hold(route: Route) -> None:
        nonlocal held, most
        held += 1
        most = max(most, held)
        await may_answer.wait()
        await route.continue_()
        held -= 1

    rows = await follow(site, visitor)
    await rows.first.locator("td.time summary").click()
    await site.store.write_events([merged(2_000)])
    button = page.locator("#arrived button")
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    await page.route("**/events?*", hold)
    await button.dblclick()
    may_answer.set()
    await expect(rows).to_have_count(9)
    await expect(button).to_be_hidden()
    assert most == 1


async def test_focus_goes_from_the_button_to_the_first_new_row(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor)
    page, button = visitor.page, visitor.page.locator("#arrived button")
    await rows.first.locator(".toggle").focus()
    await site.store.write_events([merged(2_000)])
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    await page.keyboard.press("Shift+Tab")
    await expect(button).to_be_focused()
    # The button stays while it has focus, and counts on.
    await site.store.write_events([merged(2_001)])
    await expect(button).to_have_text("Show 2 new events", timeout=PATIENCE)
    await expect(button).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#e2001 .toggle")).to_be_focused()
    await expect(rows).to_have_count(10)
    await expect(button).to_be_hidden()


RECORD = """() => {
  window.written = [];
  const note = (changes) => window.written.push(...changes.map((each) => each.target.textContent));
  for (const id of ["live", "arrived"]) {
    new MutationObserver(note).observe(document.getElementById(id), {
      characterData: true, childList: true, subtree: true,
    });
  }
}"""


async def test_what_stays_the_same_is_not_announced_again(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor, f"{VIEW}&not_trigger=nobody")
    page = visitor.page
    await rows.first.locator(".toggle").focus()
    await site.store.write_events([merged(2_000)])
    button = page.locator("#arrived button")
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    await page.evaluate(RECORD)
    async with page.expect_response("**/events?*", timeout=PATIENCE) as answered:
        await site.store.write_events([merged(2_001, trigger="nobody")])
    await (await answered.value).finished()
    await site.store.write_events([merged(2_002)])
    await expect(button).to_have_text("Show 2 new events", timeout=PATIENCE)
    assert await page.evaluate("written") == ["Show 2 new events"]


async def test_a_row_that_the_url_opens_can_be_closed(site: FrontDoor, visitor: Visitor) -> None:
    rows = await follow(site, visitor, f"{VIEW}&event=1000")
    details = visitor.page.locator("#e1000 td.time > details")
    await expect(details).to_have_attribute("open", "")
    await details.locator("summary").click()
    await visitor.page.locator("h1").click()
    for number in (1, 2):
        await site.store.write_events([merged(2_000 + number)])
        await expect(rows).to_have_count(8 + number, timeout=PATIENCE)
        await expect(details).not_to_have_attribute("open", "")


async def test_a_selection_by_keyboard_survives_the_end_of_an_earlier_touch(
    site: FrontDoor, visitor: Visitor
) -> None:
    await follow(site, visitor, LOG)
    page = visitor.page
    bars = page.locator("#bars")
    await bars.dispatch_event("pointerdown", {"button": 0})
    await bars.dispatch_event("pointerup")
    await page.locator('.histogram a[tabindex="0"]').focus()
    await page.keyboard.press("Shift+ArrowLeft")
    await expect(page.locator("#brush-said")).to_contain_text("2 bars")
    await bars.dispatch_event("pointercancel")
    await page.keyboard.press("Shift+ArrowRight")
    await expect(page.locator("#brush-said")).to_contain_text("1 bar; Enter shows it")


async def test_the_histogram_tells_only_what_works(
    browser: Browser, site: FrontDoor, visitor: Visitor
) -> None:
    await follow(site, visitor, LOG)
    help_text = "click a bar, or drag over several; on the keyboard, Shift and the arrows"
    await expect(visitor.page.locator("#brush-help")).to_have_text(help_text, use_inner_text=True)
    async with visit(browser, site, java_script_enabled=False) as other:
        await other.sign_in()
        await other.go(LOG)
        shown = other.page.locator("#brush-help")
        await expect(shown).to_have_text("click a bar", use_inner_text=True)


async def follow_with_clock(site: FrontDoor, visitor: Visitor) -> Locator:
    """Follow the log on a page whose clock the test moves; return its rows."""
    await visitor.page.clock.install()
    rows = await follow(site, visitor)
    # Counts below the pointer stay as they are.
    await visitor.page.mouse.move(0, 0)
    return rows


async def test_counts_follow_the_rows_unless_they_are_used(
    site: FrontDoor, visitor: Visitor
) -> None:
    page = visitor.page
    rows = await follow_with_clock(site, visitor)
    total = page.locator("#total")
    await expect(total).to_have_text("8 in this range")
    await page.locator("#narrow .value-row a").first.focus()
    await site.store.write_events([merged(2_000)])
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    await page.clock.fast_forward(30_000)
    await expect(total).to_have_text("8 in this range")
    await page.locator("#pause").focus()
    await page.clock.fast_forward(30_000)
    await expect(total).to_have_text("9 in this range")
    merges = page.locator("#narrow .value-row", has_text="action.merge")
    await expect(merges.locator(".count")).to_have_text("1")
    # The new bars can be selected as the old ones.
    await page.locator('.histogram a[tabindex="0"]').focus()
    await page.keyboard.press("Shift+ArrowLeft")
    await expect(page.locator("#brush-said")).to_contain_text("2 bars")


async def test_a_paused_page_counts_once_it_follows_again(
    site: FrontDoor, visitor: Visitor
) -> None:
    page = visitor.page
    rows = await follow_with_clock(site, visitor)
    requests: list[str] = []
    page.on("request", lambda each: requests.append(each.url))
    await site.store.write_events([merged(2_000)])
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    await page.get_by_role("button", name="Pause").press("Enter")
    for _ in range(3):
        await page.clock.fast_forward(30_000)
    await expect(page.locator("#total")).to_have_text("8 in this range")
    await page.get_by_role("button", name="Resume").press("Enter")
    await expect(page.locator("#total")).to_have_text("9 in this range")
    assert len([url for url in requests if "/events/counts" in url]) == 1


HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_hidden_page_gives_its_connection_back_and_catches_up(
    site: FrontDoor, visitor: Visitor
) -> None:
    page, live = visitor.page, visitor.page.locator("#live")
    await page.clock.install()
    rows = await follow(site, visitor)
    async with page.expect_event("requestfailed", lambda sent: "/stream" in sent.url):
        await page.evaluate(HIDE, True)
        await page.clock.fast_forward(60_000)
    await expect(live).to_have_text("Paused while hidden")
    await site.store.write_events([merged(2_000)])
    await page.evaluate(HIDE, False)
    await expect(live).to_have_text("Live")
    await expect(rows).to_have_count(9, timeout=PATIENCE)


async def test_a_page_that_the_browser_kept_is_live_again(
    site: FrontDoor, visitor: Visitor
) -> None:
    page, live = visitor.page, visitor.page.locator("#live")
    rows = await follow(site, visitor)
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    await expect(live).to_have_text("Paused while hidden")
    await site.store.write_events([merged(2_000)])
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    # Who paused it finds it paused.
    await page.get_by_role("button", name="Pause").click()
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    await expect(live).to_have_text("Paused")
