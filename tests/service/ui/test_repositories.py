"""The first page shows the health of the repositories, worst first."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from indexing.names import RepositoryName
from tests.builders import GADGETS, load_names
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import load_shown
from tests.service.ui.visitor import Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_the_worst_repository_comes_first_with_its_figures(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    await load_names(site.store, ["sound"], repository=GADGETS)
    for number in range(9):
        await site.store.ensure_repository(RepositoryName("acme", f"later-{number}"))
    await visitor.fill_in_key()
    rows = visitor.page.get_by_role("row")
    await expect(rows).to_have_count(11)
    worst = rows.nth(1)
    await expect(worst).to_contain_text("widgets")
    await expect(worst.get_by_role("img").first).to_have_attribute(
        "aria-label", "1 broken, 1 flaky, 0 unknown, 1 healthy"
    )
    await expect(worst).to_contain_text("33 %")
    await expect(rows.nth(2)).to_contain_text("gadgets")
    await expect(rows.nth(3)).to_contain_text("no report yet")
    assert await visitor.find_violations() == []
    await visitor.page.get_by_role("link", name="Next").click()
    await expect(rows).to_have_count(2)
    await visitor.page.get_by_role("link", name="Repository").click()
    await expect(rows.nth(1)).to_contain_text("gadgets")
    await rows.nth(1).get_by_role("link").click()
    await expect(visitor.page.get_by_role("heading", name="acme/gadgets")).to_be_visible()


async def test_it_reads_without_scripts_on_a_telephone(site: FrontDoor, browser: Browser) -> None:
    await load_shown(site.store)
    size = {"viewport": {"width": 390, "height": 800}, "java_script_enabled": False}
    async with visit(browser, site, **size) as visitor:
        await visitor.fill_in_key()
        await expect(visitor.page.get_by_role("link", name="acme/widgets")).to_be_visible()
