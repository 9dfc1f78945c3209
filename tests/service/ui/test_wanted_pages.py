"""Signing in leads to the page that was wanted, with all of its address."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.visitor import visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("scripts", [True, False])
async def test_the_query_and_the_fragment_outlast_a_mistyped_key(
    browser: Browser, site: FrontDoor, scripts: bool
) -> None:
    await load_shown(site.store)
    wanted = ("/ui/?sort=name", f"{page_of(FLAKY)}?conclusion=failed&branch=a\\b#executions")
    for path in wanted:
        async with visit(browser, site, java_script_enabled=scripts) as visitor:
            page = visitor.page
            await visitor.go(path)
            for key in (f"{site.key}x", site.key):
                await page.get_by_label("Key", exact=True).fill(key)
                await page.get_by_role("button", name="Sign in").click()
            await expect(page).to_have_url(site.base + path)
            visitor.refusals = 1
