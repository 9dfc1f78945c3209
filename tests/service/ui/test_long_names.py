"""Names of tests in lists: how they are cut, and what they are called."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after, load_names
from tests.service.front_door import FrontDoor
from tests.service.ui.visitor import Visitor, visit

# The width of the text of each part of a name, and of its box.
MEASURE = """
(parts) => parts.map((part) => {
  const range = document.createRange();
  range.selectNodeContents(part);
  return [range.getBoundingClientRect().width, part.getBoundingClientRect().width];
})
"""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_long_names_that_differ_at_the_end_are_called_differently(
    site: FrontDoor, visitor: Visitor
) -> None:
    names = [f"pkg/test_lid.py::test_{'x' * 500}_{end}" for end in ("one", "two")]
    await load_names(site.store, names)
    for name in names:
        await site.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), after(days=-1))
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    for end in ("one", "two"):
        await expect(page.get_by_role("link", name=f"_{end}")).to_have_count(1)
    assert await visitor.find_violations() == []
    await visitor.go("/ui/acme/widgets/quarantines")
    for end in ("one", "two"):
        await expect(page.get_by_role("checkbox", name=f"_{end}")).to_have_count(1)
    assert await visitor.find_violations() == []


async def test_a_short_head_takes_no_more_room_than_its_text(
    browser: Browser, site: FrontDoor
) -> None:
    folders = "abc/" * 60
    await load_names(site.store, [f"{folders}test_lid", "i.l.i", "pkg/lid/fits", "t::healthy"])
    for width in (390, 1280):
        async with visit(browser, site, viewport={"width": width, "height": 800}) as visitor:
            await visitor.sign_in()
            await visitor.go("/ui/acme/widgets/tests?sort=test_name&direction=asc")
            names = visitor.page.locator("#results th .name")
            await expect(names).to_have_count(4)
            long, *others = await names.locator(".head").evaluate_all(MEASURE)
            for text, box in others:
                assert box == pytest.approx(text, abs=0.5)
            # A long head gives way, but some of it stays.
            assert 19 < long[1] < long[0]
            tail = names.first.locator(".tail")
            assert await tail.evaluate("each => each.scrollWidth <= each.clientWidth")
            jobs = visitor.page.locator("#results td .name .head")
            for text, box in await jobs.evaluate_all(MEASURE):
                assert box == pytest.approx(text, abs=0.5)
