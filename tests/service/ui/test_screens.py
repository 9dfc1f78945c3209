"""Pages fit the screen, however long the names on them are, and stay so on telephones."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from tests.builders import WIDGETS, after, load_history, make_event
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG, load_log
from tests.service.ui.shown import BROKEN, FLAKY, load_shown, page_of
from tests.service.ui.visitor import visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

LONG = "W" * 250
# Names of jobs of a matrix, which differ at the end.
JOBS = [f"matrix (ubuntu-24.04, python 3.13, all {each})" for each in ("extras", "locales")]
FITS = "cells => cells.every((each) => each.scrollWidth <= each.clientWidth)"


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


@pytest.mark.parametrize("width", [360, 1024, 1920])
async def test_what_tells_rows_apart_is_not_cut(
    browser: Browser, site: FrontDoor, width: int
) -> None:
    for job in JOBS:
        results = [*[Conclusion.PASSED] * 20, *[Conclusion.FAILED] * 10]
        await load_history(site.store, BROKEN, job, results)
    await site.store.refresh_tests(after())
    asked = QuarantineRequest(BROKEN, "flaps")
    await site.store.add_quarantine(WIDGETS, asked, after(days=-25))
    async with visit(browser, site, viewport={"width": width, "height": 800}) as visitor:
        page = visitor.page
        await visitor.sign_in()
        await visitor.go("/ui/acme/widgets")
        worst = page.locator("[aria-labelledby=worst-jobs] .name")
        await expect(worst).to_have_count(2)
        assert await worst.locator("span").evaluate_all(FITS)
        # As in a large repository.
        counts = page.locator("[aria-labelledby=worst-jobs] td[data-label=broken]")
        await counts.evaluate_all("cells => cells.forEach((each) => (each.textContent = '99,999'))")
        assert await counts.evaluate_all(FITS)
        await visitor.go("/ui/acme/widgets/quarantines")
        verdicts = page.get_by_role("cell", name="30 of 50 passed")
        await expect(verdicts).to_have_count(1)
        assert await verdicts.evaluate_all(FITS)
        # Where a table has all of its columns, those of jobs get the room that is left.
        if width < 1900:
            return
        for path in ("/ui/acme/widgets/tests", page_of(BROKEN)):
            await visitor.go(path)
            jobs = page.locator("tbody .name", has_text="matrix")
            await expect(jobs).not_to_have_count(0)
            assert await jobs.locator("span").evaluate_all(FITS), path


async def test_words_of_a_telephone_stand_beside_what_they_name(
    browser: Browser, site: FrontDoor
) -> None:
    await load_log(site.store)
    await site.store.write_events([make_event(1, after(minutes=-1))])
    await site.store.add_quarantine(WIDGETS, QuarantineRequest(BROKEN, "flaps"), after(days=-1))
    async with visit(browser, site, viewport={"width": 360, "height": 800}) as visitor:
        page = visitor.page
        await visitor.sign_in()
        await visitor.go(LOG)
        for name in ("From", "to"):
            label, field = page.locator("label", has_text=name), page.get_by_label(name, exact=True)
            line = await field.bounding_box()
            word = await label.and_(page.locator(":visible")).bounding_box()
            assert line is not None
            assert word is not None
            assert line["y"] < word["y"] < line["y"] + line["height"]
        # Without the heading of its column, "none" says nothing.
        await expect(page.locator("tr.entry").first.get_by_text("none")).to_be_hidden()
        await visitor.go("/ui/acme/widgets/quarantines")
        author = page.locator("#changes td").last
        shown = await author.evaluate("each => getComputedStyle(each, '::before').content")
        assert shown == '"by "'
