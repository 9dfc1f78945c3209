"""The durations on the page of a test: a chart of them by day, and the same as a table."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.async_api import Browser, expect

from indexing.models.executions import Conclusion
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, load_names, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import page_of
from tests.service.ui.visitor import Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TEST = "tests/test_hinge.py::test_the_hinge_swings"
RANGE = "Mean and longest duration by day over 30 days"


async def load_durations(site: FrontDoor) -> None:
    """Load a test that takes longer from day to day, three times as long on Windows."""
    for number, seconds in enumerate((0.2, 0.3, 0.5)):
        for job, factor in (("linux", 1), ("windows", 3)):
            run = make_run(f"{number}-{job}", job=job, commit=f"{number:040}")
            at = NOON - timedelta(days=2 - number, hours=1)
            results = [(TEST, Conclusion.PASSED)]
            executions = make_executions(run, results, at, duration=seconds * factor)
            await site.store.write_results(WIDGETS, {run: executions})
    await site.store.refresh_tests(NOON)


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_the_page_of_a_test_shows_its_durations_by_day_and_by_job(
    site: FrontDoor, visitor: Visitor, stack: Settings
) -> None:
    await load_durations(site)
    await visitor.sign_in()
    await visitor.go(page_of(TEST))
    panel = visitor.page.get_by_role("region", name="Durations", exact=True)
    chart = panel.get_by_role("figure")
    await expect(chart).to_have_accessible_name(f"{RANGE}: 667 ms on average, 1.5 s at most")
    await expect(chart.locator(".x")).to_have_text(
        re.compile(r"3 Aug\s*10 Aug.*1 Sep\s*$", re.DOTALL)
    )
    await panel.get_by_text("Show as a table").click()
    rows = panel.get_by_role("row")
    await expect(rows).to_have_text(
        [
            re.compile(r"Day\s*Mean\s*Longest"),
            re.compile(r"1 Sep\s*1\.0\ss\s*1\.5\ss"),
            re.compile(r"31 Aug\s*600\sms\s*900\sms"),
            re.compile(r"30 Aug\s*400\sms\s*600\sms"),
        ]
    )
    jobs = visitor.page.get_by_role("region", name="Verdicts by job")
    await jobs.get_by_role("row", name="linux").get_by_role("link", name="333 ms").click()
    await expect(chart).to_have_accessible_name(f"{RANGE}: 333 ms on average, 500 ms at most")
    await expect(panel.locator("header")).to_contain_text("linux")
    await panel.get_by_role("link", name="All jobs").click()
    await expect(chart).to_have_accessible_name(f"{RANGE}: 667 ms on average, 1.5 s at most")


async def test_a_test_without_durations_says_so(site: FrontDoor, visitor: Visitor) -> None:
    await load_names(site.store, [TEST])
    await visitor.sign_in()
    await visitor.go(page_of(TEST))
    panel = visitor.page.get_by_role("region", name="Durations", exact=True)
    await expect(panel).to_contain_text("states how long the test took")
    await expect(panel.get_by_role("figure")).to_have_count(0)


async def test_a_duration_of_many_hours_is_shown_in_full(browser: Browser, site: FrontDoor) -> None:
    run = make_run()
    executions = make_executions(run, [(TEST, Conclusion.PASSED)], duration=(99 * 60 + 59) * 60)
    await site.store.write_results(WIDGETS, {run: executions})
    await site.store.refresh_tests(NOON)
    for width in (1000, 1280, 1600):
        async with visit(browser, site, viewport={"width": width, "height": 900}) as visitor:
            await visitor.sign_in()
            # The one of the list is left out if there is no room.
            for path, is_shown in (("/ui/acme/widgets/tests", width > 1152), (page_of(TEST), True)):
                await visitor.go(path)
                cells = visitor.page.locator("td.n:visible", has_text="99\u00a0h 59\u00a0min")
                fits = await cells.evaluate_all(
                    "cells => cells.map((each) => each.scrollWidth <= each.clientWidth)"
                )
                assert any(fits) == is_shown
                assert all(fits), (width, path)
