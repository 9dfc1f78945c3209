"""Pages fit the screen, however long the names on them are, and stay so on telephones."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from indexing.models.keys import Scope
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.visitor import visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

LONG = "W" * 250


@pytest.mark.parametrize("width", [390, 800, 1280])
async def test_a_long_name_of_a_key_or_a_filter_is_cut(
    browser: Browser, site: FrontDoor, width: int
) -> None:
    await load_shown(site.store)
    await load_log(site.store)
    site.key = await site.add_key(name=f"nightly builds of {LONG}", scope=Scope.READ)
    async with visit(browser, site, viewport={"width": width, "height": 800}) as visitor:
        await visitor.sign_in()
        for path in (
            "/ui/",
            f"{page_of(FLAKY)}?pipeline_name={LONG}&job_name={LONG}&branch={LONG}",
            f"{LOG}?not_trigger={LONG}&base_ref={LONG}",
        ):
            await visitor.go(path)
            shown = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert shown <= width, path
        assert await visitor.find_violations() == []


async def test_no_field_makes_a_telephone_enlarge_the_page(
    browser: Browser, site: FrontDoor
) -> None:
    await load_shown(site.store)
    telephone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    async with visit(browser, site, **telephone) as visitor:
        await visitor.sign_in()
        for path in (
            "/ui/acme/widgets/tests",
            page_of(FLAKY),
            "/ui/acme/widgets/quarantines",
            LOG,
            "/ui/docs?operation=searchTests",
        ):
            await visitor.go(path)
            sizes = await visitor.page.locator("input, select, textarea").evaluate_all(
                "fields => fields.map((each) => parseFloat(getComputedStyle(each).fontSize))"
            )
            assert min(sizes) >= 16, path
