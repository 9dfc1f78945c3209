"""Parts of pages that scripts load: an error in one leaves the page usable."""

from __future__ import annotations

import asyncio
import re
import uuid

import orjson
import pytest
from playwright.async_api import Route, expect

from indexing.errors import StoreUnavailableError
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from service.config.settings import LogFormat, LogLevel
from service.logs import configure_logging
from tests.builders import WIDGETS, after
from tests.service.front_door import FrontDoor
from tests.service.ui.logged import LOG
from tests.service.ui.shown import BROKEN, FLAKY, SECRET_OF_TRACE, load_shown, page_of
from tests.service.ui.signed_in import sign_in
from tests.service.ui.visitor import Visitor
from tests.waiting import until

TESTS = "/ui/acme/widgets/tests"


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_a_list_can_be_filtered_again_after_an_error(
    site: FrontDoor, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def search(*_: object) -> None:
        raise StoreUnavailableError("the store is being restarted")

    await load_shown(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(TESTS)
    results, glob = page.locator("#results"), page.get_by_label("Test name, with * and ?")
    await glob.fill("lid")
    visitor.refusals += 1
    with monkeypatch.context() as patch:
        patch.setattr(site.reader, "search_tests", search)
        await page.get_by_role("button", name="Apply").click()
        await expect(results).to_contain_text("Not just now")
    assert await visitor.find_violations() == []
    # Not found in the cache, as no answer was kept for it.
    await glob.fill("hinge")
    await page.get_by_role("button", name="Apply").click()
    await expect(results.get_by_role("link", name=FLAKY).first).to_be_visible()
    await expect(results.get_by_role("link", name=BROKEN)).to_have_count(0)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_a_list_says_that_it_is_loaded_and_that_no_answer_came(
    site: FrontDoor, visitor: Visitor
) -> None:
    may_answer = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await load_shown(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(TESTS)
    results, told = page.locator("#results"), page.get_by_role("alert")
    apply = page.get_by_role("button", name="Apply")
    await page.get_by_label("Test name, with * and ?").fill("hinge")
    await page.route("**/tests?*", lambda route: route.abort())
    visitor.refusals += 1
    await apply.click()
    await expect(told).to_have_text(re.compile("The service did not answer"))
    await expect(results.get_by_role("link", name=BROKEN).first).to_be_visible()
    # The browser reports it in one line, which is counted as a refusal, and htmx in two.
    await until(lambda: len(visitor.wrong) == 3)
    visitor.wrong[:] = [each for each in visitor.wrong if not each.startswith("console: htmx:")]

    await page.unroute_all()
    await page.route("**/tests?*", hold)
    await apply.click()
    await expect(results).to_have_attribute("aria-busy", "true")
    await results.evaluate("each => each.getAnimations().forEach((found) => found.finish())")
    await expect(results).not_to_have_css("box-shadow", "none")
    assert await visitor.find_violations() == []
    may_answer.set()
    await expect(results.get_by_role("link", name=BROKEN)).to_have_count(0)
    await expect(results).not_to_have_attribute("aria-busy", "true")
    await expect(told).to_have_count(0)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_a_failure_that_could_not_be_loaded_is_loaded_when_it_is_opened_again(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_shown(site.store)
    page = visitor.page
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    await visitor.sign_in()
    await visitor.go(page_of(FLAKY))
    message = page.get_by_text("expected 5, got 11")
    await page.route("**/failures/*", lambda route: route.abort())
    visitor.refusals += 1
    await message.click()
    await expect(page.get_by_role("alert")).to_have_text(re.compile("The service did not answer"))
    await until(lambda: len(visitor.wrong) == 3)
    visitor.wrong[:] = [each for each in visitor.wrong if not each.startswith("console: htmx:")]

    await page.unroute_all()
    await message.click()
    await message.click()
    await expect(page.get_by_text(SECRET_OF_TRACE)).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    # It stays, however often it is opened.
    for _ in range(2):
        await message.click()
    await expect(page.get_by_text(SECRET_OF_TRACE)).to_be_visible()
    assert len([each for each in requested if "/failures/" in each]) == 2


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_no_other_test_is_chosen_after_going_back(site: FrontDoor, visitor: Visitor) -> None:
    await load_shown(site.store)
    for name in (BROKEN, FLAKY):
        await site.store.add_quarantine(WIDGETS, QuarantineRequest(name, "r"), after(days=-1))
    page = visitor.page
    await visitor.sign_in()
    await visitor.go("/ui/acme/widgets/quarantines")
    boxes = page.get_by_role("checkbox")
    await boxes.nth(1).check()
    await expect(page.get_by_text("1 chosen")).to_be_visible()
    await visitor.go(page_of(BROKEN))
    await page.go_back()
    await expect(boxes).to_have_count(2)
    assert [await box.is_checked() for box in await boxes.all()] == [False, False]
    await expect(page.get_by_text("Choose tests, then")).to_be_visible()


async def test_an_error_keeps_the_case_of_what_it_names(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    client = await sign_in(door, Scope.READ)
    refused = await client.get(f"{LOG}?trigger={'x' * 4_000}")
    assert b"<p>The URL of this page takes at most" in refused.body


@pytest.mark.parametrize(
    "path",
    [
        f"{TESTS}?sort=colour",
        f"{LOG}?pull_request=x",
        "/ui/acme/absent/events/counts",
        f"{page_of(FLAKY)}/failures/{uuid.UUID(int=1)}",
        "/ui/acme/absent/worst",
    ],
)
async def test_an_error_goes_into_the_element_that_it_would_replace(
    door: FrontDoor, path: str
) -> None:
    await load_shown(door.store)
    client = await sign_in(door, Scope.READ)
    answer = await client.get(path, **{"HX-Request": "true"})
    assert answer.status in (404, 422)
    assert answer.headers["HX-Reswap"] == "innerHTML"
    assert answer.body.lstrip().startswith(b'<div class="state broken"')
    assert "HX-Reswap" not in (await client.get(path)).headers


async def test_the_log_says_why_a_page_that_takes_too_long_is_unavailable(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await load_shown(door.store)
    client = await sign_in(door, Scope.READ)

    async def take_too_long(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(door.reader, "search_tests", take_too_long)
    configure_logging(LogLevel.WARNING, LogFormat.JSON)
    assert (await client.get(TESTS)).status == 503
    lines = map(orjson.loads, capsys.readouterr().err.splitlines())
    reasons = [line["reason"] for line in lines if line["event"] == "store unavailable"]
    assert reasons == ["the page took too long"]
