"""Names in lists: how they are cut, what they are called, and in which direction they run."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, expect

from indexing.models.executions import Conclusion
from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after, load_history, load_names
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

# The words of a line as they are seen, from the left to the right.
READ = """
(line) => {
  const words = [];
  const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
    for (const found of text.data.matchAll(/[^\\s]+/g)) {
      const range = document.createRange();
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      words.push([range.getBoundingClientRect().left, found[0]]);
    }
  }
  return words.sort((one, other) => one[0] - other[0]).map((each) => each[1]);
}
"""
# A name that is read from the right to the left: "unit" in Arabic.
FROM_THE_RIGHT = "\u0648\u062d\u062f\u0629"

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
    # Two quarantines of one test differ in their branches alone.
    on_branch = QuarantineRequest(names[0], "flaps", "next")
    await site.store.add_quarantine(WIDGETS, on_branch, after(days=-1))
    await visitor.go("/ui/acme/widgets/quarantines")
    for end in ("_one", "_one on next", "_two"):
        chosen = page.get_by_role("checkbox", name=re.compile(f"{end}$"))
        await expect(chosen).to_have_count(1)
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


async def test_a_job_that_is_read_from_the_right_moves_no_number_before_it(
    site: FrontDoor, visitor: Visitor
) -> None:
    passed, failed = Conclusion.PASSED, Conclusion.FAILED
    results = [*[passed] * 3, *[failed] * 3]
    await load_history(site.store, "test_lid", FROM_THE_RIGHT, results, duration=1)
    await site.store.refresh_tests(after())
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets")
    slowest = page.locator("[aria-labelledby=slowest] .under")
    assert await slowest.evaluate(READ) == ["ci", "/", FROM_THE_RIGHT, "·", "6", "executions"]
    change = ["ci", "/", FROM_THE_RIGHT, "·", "c00"]
    assert await page.locator("[aria-labelledby=new] .under").evaluate(READ) == change
    await page.locator("[aria-labelledby=new] .name").click()
    history = page.locator("[aria-labelledby=history] .under")
    assert await history.evaluate(READ) == change
