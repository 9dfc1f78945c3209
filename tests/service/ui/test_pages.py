"""The pages in a real browser: content, accessibility, and hostile data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from indexing.errors import StoreUnavailableError
from indexing.models.executions import Conclusion
from indexing.models.quarantines import QuarantineRequest
from service.config.settings import Settings
from tests.builders import (
    NOON,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import (
    BROKEN,
    FLAKY,
    HOSTILE,
    SECRET_OF_TRACE,
    load_hostile,
    load_shown,
    page_of,
)
from tests.service.ui.visitor import MAX_PAGE_BYTES, Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

PAGES = (
    "/ui/",
    "/ui/acme/widgets",
    "/ui/acme/widgets/worst",
    "/ui/acme/widgets/tests",
    "/ui/acme/widgets/tests?test_name=nothing",
    page_of(FLAKY),
    page_of(BROKEN),
    "/ui/acme/widgets/quarantines",
)


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_from_signing_in_to_the_stack_trace_and_a_quarantine(
    site: FrontDoor, visitor: Visitor, stack: Settings
) -> None:
    await load_shown(site.store)
    page = visitor.page
    await visitor.fill_in_key()
    await page.get_by_role("link", name="acme/widgets").click()
    await expect(page.get_by_role("link", name="Broken")).to_contain_text("1 more than a week ago")
    new = page.get_by_role("region", name="Newly broken or flaky")
    await expect(new.get_by_role("listitem")).to_have_count(3)
    await page.get_by_text("Show as a table").click()
    today = page.get_by_role("row", name="1 Sep")
    await expect(today).to_have_text(re.compile(r"1 Sep\s*1\s*1\s*0\s*1\s*"))
    # 14 days of three tests; the flaky test failed twice there, the broken one four times.
    directories = page.get_by_role("region", name="Worst directories")
    await expect(directories.get_by_role("link", name="tests", exact=True)).to_have_attribute(
        "href", "/ui/acme/widgets/tests?test_filepath=tests%2F%2A"
    )
    jobs = page.get_by_role("region", name="Worst jobs").get_by_role("row")
    await expect(jobs).to_have_count(3)
    await expect(jobs.nth(1)).to_have_text(re.compile(r"windows\s*1\s*1\s*14\s*%"))
    await expect(jobs.nth(1).get_by_role("img")).to_have_accessible_name(
        "1 broken, 1 flaky, 0 unknown, 1 healthy"
    )
    slowest = page.get_by_role("region", name="Slowest tests").get_by_role("listitem")
    await expect(slowest.first).to_contain_text("250 ms")
    await page.get_by_label("Find a test by name").fill("hinge")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name=FLAKY).first.click()
    await expect(page.get_by_role("heading", name=FLAKY)).to_be_visible()
    await expect(page.locator(".rule")).to_contain_text("2 falls in the newest 14 verdicts")
    history = page.get_by_role("region", name="History of its health").get_by_role("listitem")
    await expect(history.first).to_contain_text("Healthy became Flaky")
    await page.get_by_text("expected 5, got 11").click()
    await expect(page.get_by_text(SECRET_OF_TRACE)).to_be_visible()

    await page.get_by_label("Reason").fill("waits for a new spring")
    await page.get_by_label("Ends in").select_option("14")
    await page.get_by_role("button", name="Quarantine").click()
    await expect(page.locator("#quarantine")).to_contain_text("waits for a new spring")
    await page.get_by_role("link", name="Quarantines").click()
    changes = page.locator("#changes")
    await expect(changes.get_by_role("row").nth(1)).to_contain_text("on call")
    site.clock.now = after(minutes=5)
    await page.get_by_label(f"Choose {FLAKY}").check()
    await page.get_by_role("button", name="End quarantine").click()
    await expect(page.get_by_text("1 ended.")).to_be_visible()
    await expect(page.get_by_text("Nothing is quarantined")).to_be_visible()
    await expect(changes.get_by_role("row").nth(1)).to_contain_text("removed")


async def test_a_test_that_is_broken_says_since_when_and_its_verdicts_lead_to_executions(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(page_of(BROKEN))
    await expect(page.locator(".rule")).to_contain_text("Broken")
    # Only the newest verdict of a strip can be tabbed to; the arrows lead to the others.
    strip = page.get_by_role("list", name="14 verdicts of ci / windows, oldest first")
    await strip.get_by_role("link").last.focus()
    for _ in range(4):
        await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Enter")
    rows = page.locator("#executions tbody").get_by_role("row")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("passed")
    await page.get_by_role("link", name="Clear").click()
    await page.get_by_role("link", name="Failed", exact=True).click()
    await expect(rows).to_have_count(8)


async def test_the_list_begins_with_the_worst_and_shows_what_is_chosen(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    rows = page.locator("#results tbody").get_by_role("row")
    await expect(rows).to_have_count(6)
    await expect(rows.first).to_contain_text(BROKEN)
    await expect(rows.first.get_by_role("img")).to_have_accessible_name(
        "14 verdicts: 10 passed, 4 failed; newest failed"
    )
    clear = page.get_by_role("link", name="Clear")
    await expect(clear).to_be_hidden()
    health = page.locator("summary", has_text="Health")
    await health.click()
    await page.get_by_label("flaky").check()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("ci / windows")
    # All that depends on the view has followed the list.
    await expect(health).to_have_text("Health flaky")
    export = page.get_by_role("link", name="Export CSV")
    await expect(export).to_have_attribute("href", re.compile("[?&]health_status=flaky&"))
    await expect(clear).to_be_visible()
    # The URL contains the whole view: another user sees the same.
    await page.reload()
    await expect(rows).to_have_count(1)
    await expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    await page.go_back()
    await expect(rows).to_have_count(6)


async def test_screen_readers_are_told_how_many_rows_a_filter_leaves(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests")
    # They announce changes of an element that stays.
    told = await page.locator("main > [role=status]").element_handle()
    assert told is not None
    assert await told.text_content() == ""
    await page.get_by_label("Quarantined").select_option("true")
    await expect(page.get_by_text("No test matches")).to_be_visible()
    assert await told.text_content() == "0 rows"
    await page.get_by_label("Quarantined").select_option("false")
    await expect(page.locator("#results tbody").get_by_role("row")).to_have_count(6)
    assert await told.text_content() == "6 rows"
    assert await told.evaluate("each => each.isConnected")
    assert await visitor.find_violations() == []


async def test_quarantines_have_the_owner_the_expiry_and_the_verdicts_since(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    for test, days, owner in ((FLAKY, -6, "mona"), (BROKEN, 0, None)):
        request = QuarantineRequest(test, "flaps", owner=owner, expires_at=after(days=20 + days))
        await site.store.add_quarantine(WIDGETS, request, after(days=days))
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/quarantines")
    rows = visitor.page.get_by_role("form", name="Quarantined tests").get_by_role("row")
    # After the heading and the one of the group.
    for text in ("11 of 12 passed", "mona", "in 14 d"):
        await expect(rows.nth(2)).to_contain_text(text)
    for text in ("none yet", "nobody", "in 20 d"):
        await expect(rows.nth(3)).to_contain_text(text)


async def test_a_long_list_is_walked_forward_and_back(site: FrontDoor, visitor: Visitor) -> None:
    await load_names(site.store, [f"test {number:02}" for number in range(60)])
    page = visitor.page
    rows = page.locator("#results tbody").get_by_role("row")
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/tests?sort=test_name")
    await expect(rows).to_have_count(50)
    await page.get_by_role("link", name="Next").click()
    await expect(rows).to_have_count(10)
    await expect(rows.first).to_contain_text("test 50")
    await page.get_by_role("link", name="Previous").click()
    await expect(rows).to_have_count(50)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
async def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browser: Browser, site: FrontDoor, scheme: str, width: int
) -> None:
    await load_shown(site.store)
    await site.store.set_code_owners(WIDGETS, "* @acme/hinges @mona")
    await site.store.add_quarantine(WIDGETS, QuarantineRequest(FLAKY, "flaps"), after(days=-6))
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    async with visit(browser, site, **options) as visitor:
        await visitor.go("/ui/sign-in")
        found = {"sign in": await visitor.find_violations()}
        await visitor.sign_in()
        for path in PAGES:
            await visitor.go(path)
            for details in await visitor.page.locator("details").all():
                await details.evaluate("each => { each.open = true; }")
            await visitor.page.wait_for_load_state("networkidle")
            found[path] = await visitor.find_violations()
            shown = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert shown <= width, path
        assert {path: wrong for path, wrong in found.items() if wrong} == {}


async def test_a_repository_of_today_is_compared_with_nothing(
    site: FrontDoor, visitor: Visitor
) -> None:
    # A job in which most tests fail has failed as a whole, and its results do not count.
    results = [(f"broken {number}", Conclusion.FAILED) for number in range(123)]
    results += [(f"sound {number}", Conclusion.PASSED) for number in range(200)]
    for number in range(3):
        run = make_run(f"{number}", job="linux", commit=f"{number:040}")
        executions = make_executions(run, results, after(hours=number - 4))
        await site.store.write_results(WIDGETS, {run: executions})
    await site.store.refresh_tests(NOON)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets")
    broken = page.get_by_role("link", name="Broken")
    await expect(broken).to_contain_text("123")
    await expect(broken).to_contain_text("no figure a week ago")
    # They were broken on their first day, so none of them has changed.
    new = page.get_by_role("region", name="Newly broken or flaky")
    await expect(new).to_contain_text("after its first day with results")
    jobs = page.get_by_role("region", name="Worst jobs")
    counts = jobs.get_by_role("cell", name="123", exact=True)
    await expect(counts).to_be_visible()
    assert await counts.evaluate("each => each.scrollWidth <= each.clientWidth")
    # Eight days later nothing has run for a week.
    site.clock.now = after(days=8)
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets")
    ratio = page.get_by_role("link", name="Failed executions")
    await expect(ratio).to_contain_text(re.compile(r"of 7 days\s*none"))


async def test_groups_that_take_too_long_to_count_hide_nothing_else(
    site: FrontDoor, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def count(*_: object) -> None:
        raise StoreUnavailableError("counting takes too long")

    monkeypatch.setattr(site.reader, "group_tests", count)
    await load_shown(site.store)
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets")
    jobs = visitor.page.get_by_role("region", name="Worst jobs")
    await expect(jobs).to_contain_text("Counting the tests takes too long")
    slowest = visitor.page.get_by_role("region", name="Slowest tests").get_by_role("listitem")
    await expect(slowest).to_have_count(5)


async def test_without_scripts_everything_can_be_read_and_done(
    browser: Browser, site: FrontDoor
) -> None:
    await load_shown(site.store)
    await site.store.set_code_owners(WIDGETS, "tests/ @acme/hinges")
    async with visit(browser, site, java_script_enabled=False) as visitor:
        page = visitor.page
        await visitor.sign_in()
        await visitor.go("/ui/acme/widgets")
        await page.get_by_role("link", name="Worst directories, jobs and owners").click()
        owners = page.get_by_role("region", name="Worst owners")
        await expect(owners.get_by_role("row").nth(1)).to_contain_text("@acme/hinges")
        await owners.get_by_role("link", name="@acme/hinges").click()
        await expect(page.get_by_label("Owner, or none")).to_have_value("@acme/hinges")
        await expect(page.locator("#results tbody").get_by_role("row").first).to_be_visible()
        await page.go_back()
        await page.get_by_role("link", name="windows").click()
        await expect(page.locator("#results tbody").get_by_role("row")).to_have_count(3)
        await visitor.go("/ui/acme/widgets/tests")
        await page.get_by_label("Test name, with * and ?").fill("*hinge*")
        await page.get_by_role("button", name="Apply").click()
        await page.get_by_role("link", name=FLAKY).first.click()
        await page.get_by_text("expected 5, got 11").click()
        await page.get_by_role("link", name="Stack trace and newest failures").click()
        await expect(page.get_by_text(SECRET_OF_TRACE)).to_be_visible()
        await page.get_by_role("link", name=FLAKY).click()
        await page.get_by_label("Reason").fill("because")
        await page.get_by_role("button", name="Quarantine").click()
        await expect(page.locator("#quarantine")).to_contain_text("because")


async def test_hostile_text_comes_out_as_text_everywhere(site: FrontDoor, visitor: Visitor) -> None:
    await load_hostile(site.store)
    page = visitor.page
    await visitor.sign_in()
    refused = (
        "/ui/acme/widgets/tests?sort=%3Cscript%3E",
        "/ui/%3Cscript%3Ealert(8)%3C%2Fscript%3E/%22onx=%22/tests",
    )
    for path in (
        "/ui/acme/widgets?days=%3Cscript%3E",
        "/ui/acme/widgets/worst",
        "/ui/acme/widgets/tests",
        "/ui/acme/widgets/quarantines",
        "/ui/acme/widgets/quarantines?branch=%3Cscript%3Ealert(6)%3C/script%3E%22onclick=%22",
        "/ui/acme/widgets/tests?test_name=%22%3E%3Cscript%3Ealert(7)%3C/script%3E&job_name=%22onx=",
        *refused,
        *map(page_of, HOSTILE),
    ):
        visitor.refusals += path in refused
        await visitor.go(path)
        for failure in await page.locator("details.failure > summary").all():
            await failure.click()
            await page.locator(".trace").first.wait_for()
        assert await visitor.find_injected() == [], path
        assert "\u202e" not in await page.locator("body").inner_text()
    for text in HOSTILE[:3]:
        await visitor.go(page_of(text))
        await expect(page.get_by_role("heading", level=1)).to_have_text(text)
        await expect(page.locator(".facts")).to_contain_text("@<imgsrc=x")
    await visitor.go(page_of(HOSTILE[3]))
    await expect(page.get_by_role("heading", level=1)).to_contain_text(r"\u202etxet desrever")
    assert await page.evaluate("document.documentElement.scrollWidth") == 1280


async def test_no_page_weighs_more_than_250_kilobytes_with_its_charts(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    await visitor.sign_in()
    weights = await visitor.weigh()
    for path in PAGES:
        weights.clear()
        await visitor.go(path)
        await visitor.page.wait_for_load_state("networkidle")
        assert len(weights) >= 4
        assert sum(weights) <= MAX_PAGE_BYTES, (path, sum(weights))


async def test_a_page_of_another_site_cannot_frame_the_dashboard(
    site: FrontDoor, visitor: Visitor, tmp_path: Path
) -> None:
    framing = tmp_path / "framing.html"
    framing.write_text(f'<iframe src="{site.base}/ui/sign-in"></iframe>')
    await visitor.page.goto(framing.as_uri())
    frame = visitor.page.frames[1]
    assert not frame.url.startswith(site.base)
    assert any("frame-ancestors" in each for each in visitor.wrong)
    visitor.wrong.clear()
