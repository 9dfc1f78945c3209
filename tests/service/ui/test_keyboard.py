"""What the keyboard alone can do, in a real browser."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from indexing.models.quarantines import QuarantineRequest
from tests.builders import NOON, WIDGETS
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.shown import BROKEN, FLAKY, load_shown, page_of
from tests.service.ui.visitor import Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_the_keyboard_alone_finds_and_opens_a_test(site: FrontDoor, visitor: Visitor) -> None:
    await load_shown(site.store)
    page, keyboard = visitor.page, visitor.page.keyboard
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    # A choice applies at once.
    await page.get_by_label("Sort", exact=True).select_option("test_name")
    await page.wait_for_url("**/tests?*sort=test_name*")
    await visitor.go("/ui/acme/widgets/tests?sort=test_name")
    await keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await keyboard.press("/")
    await expect(page.get_by_label("Test name, with * and ?")).to_be_focused()
    await keyboard.type("test_the")
    await keyboard.press("Enter")
    await page.wait_for_url("**/tests?*test_name=test_the*")
    await page.locator("#results a.name").first.focus()
    await keyboard.press("ArrowDown")
    await keyboard.press("ArrowDown")
    await keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=FLAKY)).to_be_visible()
    menu = page.locator("details.menu")
    await menu.locator("summary").focus()
    await keyboard.press("Enter")
    await expect(menu.get_by_role("button", name="Sign out")).to_be_visible()
    await keyboard.press("Escape")
    await expect(menu.get_by_role("button", name="Sign out")).to_be_hidden()
    await expect(menu.locator("summary")).to_be_focused()


async def test_the_arrows_move_in_executions_and_quarantines(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    for test in (BROKEN, FLAKY):
        await site.store.add_quarantine(WIDGETS, QuarantineRequest(test, "flaps"), NOON)
    page, keyboard = visitor.page, visitor.page.keyboard
    await visitor.sign_in()
    await visitor.go(page_of(FLAKY))
    runs = page.locator("#executions tbody a")
    await runs.first.focus()
    await keyboard.press("ArrowDown")
    await expect(runs.nth(1)).to_be_focused()
    await visitor.go("/ui/acme/widgets/quarantines")
    table = page.get_by_role("form", name="Quarantined tests")
    for names in (
        table.locator("a.name"),
        table.get_by_role("checkbox"),
        page.locator("#changes a"),
    ):
        await names.first.focus()
        await keyboard.press("ArrowDown")
        await expect(names.nth(1)).to_be_focused()
        await keyboard.press("ArrowUp")
        await expect(names.first).to_be_focused()
    await table.get_by_role("checkbox").first.focus()
    await keyboard.press("/")
    await expect(page.get_by_label("Find a test by name")).to_be_focused()


@pytest.mark.parametrize("width", [390, 800])
async def test_the_slash_opens_the_search_on_narrow_screens_too(
    browser: Browser, site: FrontDoor, width: int
) -> None:
    await load_shown(site.store)
    async with visit(browser, site, viewport={"width": width, "height": 800}) as visitor:
        page, keyboard = visitor.page, visitor.page.keyboard
        await visitor.sign_in()
        await visitor.go("/ui/acme/widgets")
        field = page.get_by_label("Find a test by name")
        await page.evaluate("scrollTo(0, 200)")
        before = await page.get_by_role("banner").bounding_box()
        for _ in range(2):
            await keyboard.press("/")
            await expect(field).to_be_focused()
            box = await field.bounding_box()
            assert box is not None
            assert box["y"] > 0
            assert 0 < box["x"] < box["x"] + box["width"] < width
            # It lies over the page, which does not scroll.
            assert await page.evaluate("scrollY") == 200
            assert await page.get_by_role("banner").bounding_box() == before
            assert await visitor.find_violations() == []
            await keyboard.press("Escape")
            await expect(field).not_to_be_focused()
            await expect(field).not_to_be_in_viewport()
        await keyboard.press("/")
        await keyboard.type("lid")
        await keyboard.press("Enter")
        await page.wait_for_url("**/tests?test_name=lid")
        await expect(page.locator("#results a.name").first).to_have_accessible_name(BROKEN)


async def test_verdicts_are_one_stop_of_the_tab_key_or_one_each_without_scripts(
    browser: Browser, site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    await visitor.sign_in()
    await visitor.go(page_of(FLAKY))
    strips = visitor.page.locator(".verdicts")
    await expect(strips).to_have_count(2)
    await expect(strips.locator('[tabindex="0"]')).to_have_count(2)
    await expect(strips.locator('[tabindex="-1"]')).to_have_count(26)
    await expect(strips.first.get_by_role("link").last).to_have_attribute("tabindex", "0")
    async with visit(browser, site, java_script_enabled=False) as other:
        await other.sign_in()
        await other.go(page_of(FLAKY))
        verdicts = other.page.locator(".verdicts").first.get_by_role("link")
        await verdicts.last.focus()
        for number in (12, 11):
            await other.page.keyboard.press("Shift+Tab")
            await expect(verdicts.nth(number)).to_be_focused()


async def test_the_order_of_repositories_can_be_chosen_on_a_narrow_screen(
    browser: Browser, site: FrontDoor
) -> None:
    await load_shown(site.store)
    async with visit(browser, site, viewport={"width": 360, "height": 800}) as visitor:
        await visitor.fill_in_key()
        table = visitor.page.get_by_role("table")
        # A click takes a link that nothing hides.
        await table.get_by_role("link", name="Repository", exact=True).click()
        await visitor.page.wait_for_url("**/ui/?sort=name")
        await table.get_by_role("link", name="Broken, 30 days").click()
        await visitor.page.wait_for_url("**/ui/?sort=worst")
        assert await visitor.find_violations() == []


async def test_the_tab_key_goes_down_the_page_of_events(
    site: FrontDoor, visitor: Visitor, quick_log: None
) -> None:
    await load_log(site.store)
    page, keyboard = visitor.page, visitor.page.keyboard
    await visitor.sign_in()
    await visitor.go(LOG)
    rows, values = page.locator("#results"), page.locator("#narrow")
    for width, upper, lower in ((1280, values, rows), (640, rows, values), (1280, values, rows)):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.locator('#bars [tabindex="0"]').focus()
        await keyboard.press("Tab")
        await expect(upper.locator(":focus")).to_have_count(1)
        await lower.locator("a, summary").first.focus()
        await keyboard.press("Shift+Tab")
        await expect(upper.locator(":focus")).to_have_count(1)
