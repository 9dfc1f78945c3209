"""What the page of quarantines says after its form was sent."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import BROKEN, FLAKY, load_shown
from tests.service.ui.visitor import Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

PLACE = "/ui/acme/widgets/quarantines"


async def load_quarantines(site: FrontDoor) -> None:
    await load_shown(site.store)
    for name in (FLAKY, BROKEN):
        request = QuarantineRequest(name, "flaps", branch="main")
        await site.store.add_quarantine(WIDGETS, request, after(days=-1))


async def test_the_number_that_ended_is_told_once(site: FrontDoor, visitor: Visitor) -> None:
    await load_quarantines(site)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(f"{PLACE}?branch=main")
    await page.get_by_label(f"Choose {FLAKY}").check()
    await page.get_by_role("button", name="End quarantine").click()
    told = page.locator(".notice", has_text="ended")
    await expect(told).to_have_text("1 ended.")
    await expect(page).to_have_url(f"{site.base}{PLACE}?branch=main")
    await page.reload()
    await expect(page.get_by_label("Applies to branch")).to_have_value("main")
    await expect(told).to_have_count(0)


async def test_nothing_chosen_is_no_success(site: FrontDoor, visitor: Visitor) -> None:
    await load_quarantines(site)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(PLACE)
    await page.get_by_role("button", name="End quarantine").click()
    told = page.get_by_role("status").filter(has_text="No test was chosen.")
    await expect(told).to_be_visible()
    await expect(page.locator(".notice.healthy")).to_have_count(0)
    await expect(page).to_have_url(f"{site.base}{PLACE}")
    assert await visitor.find_violations() == []


async def test_quarantines_that_someone_else_has_ended_are_no_success(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_quarantines(site)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(PLACE)
    other = await page.context.new_page()
    await other.goto(f"{site.base}{PLACE}")
    for each in (other, page):
        await each.get_by_label(f"Choose {FLAKY}").check()
        await each.get_by_role("button", name="End quarantine").click()
        await each.get_by_text("ended").first.wait_for()
    await expect(page.locator(".notice", has_text="0 ended")).to_be_visible()
    await expect(page.locator(".notice.healthy")).to_have_count(0)


async def test_without_scripts_it_is_told_too(browser: Browser, site: FrontDoor) -> None:
    await load_quarantines(site)
    async with visit(browser, site, java_script_enabled=False) as visitor:
        page = visitor.page
        await visitor.sign_in()
        await visitor.go(PLACE)
        await page.get_by_label(f"Choose {FLAKY}").check()
        await page.get_by_role("button", name="End quarantine").click()
        await expect(page.locator(".notice", has_text="1 ended.")).to_be_visible()
        await page.get_by_role("button", name="End quarantine").click()
        await expect(page.locator(".notice", has_text="No test was chosen.")).to_be_visible()
