"""The live event log while somebody reads it: rows stay, and news is announced."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.service.front_door import FrontDoor
from tests.service.ui.followed import PATIENCE, VIEW, follow, merged
from tests.service.ui.visitor import Visitor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("quick_log"),
]


async def test_rows_below_the_pointer_stay_where_they_are(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor)
    page, button = visitor.page, visitor.page.locator("#arrived button")
    row = await rows.nth(2).element_handle()
    await rows.nth(2).hover()
    before = await row.bounding_box()
    await site.store.write_events([merged(2_000)])
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    assert await row.bounding_box() == before
    # What waited comes in, although nothing else arrives.
    await page.locator("h1").hover()
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    await expect(button).to_be_hidden()


async def test_selected_text_stays_selected(site: FrontDoor, visitor: Visitor) -> None:
    rows = await follow(site, visitor)
    page, button = visitor.page, visitor.page.locator("#arrived button")
    await rows.first.evaluate("row => getSelection().selectAllChildren(row)")
    before = await page.evaluate("String(getSelection())")
    assert "rebase" in before
    await site.store.write_events([merged(2_000)])
    await expect(button).to_have_text("Show 1 new event", timeout=PATIENCE)
    assert await page.evaluate("String(getSelection())") == before
    # A selection elsewhere says nothing about the list.
    await page.locator("h1").evaluate("title => getSelection().selectAllChildren(title)")
    await expect(rows).to_have_count(9, timeout=PATIENCE)


async def test_the_list_is_replaced_only_if_an_event_is_new(
    site: FrontDoor, visitor: Visitor
) -> None:
    rows = await follow(site, visitor, f"{VIEW}&not_trigger=nobody")
    page = visitor.page
    await page.evaluate(
        """() => {
          window.replaced = 0;
          const note = (changes) => { window.replaced += changes.length; };
          new MutationObserver(note).observe(document.querySelector(".rows"), { childList: true });
        }"""
    )
    async with page.expect_response("**/events?*", timeout=PATIENCE) as answered:
        await site.store.write_events([merged(2_000, trigger="nobody")])
    await (await answered.value).finished()
    await site.store.write_events([merged(2_001)])
    await expect(rows).to_have_count(9, timeout=PATIENCE)
    assert await page.evaluate("replaced") == 1
