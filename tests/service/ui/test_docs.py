"""The API reference in a real browser: every operation, and reads tried with the key's rights."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from service.ui.queries import MAX_QUERY_LENGTH
from tests.builders import WIDGETS
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.logged import load_hostile_log, load_log
from tests.service.ui.visitor import MAX_PAGE_BYTES, Visitor, visit

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

DOCS = "/ui/docs"
# A stream has no end, the next two change something, and the rest needs no key.
NOT_TRIED = ("streamEvents", "addQuarantine", "removeQuarantine", "getLiveness", "getReadiness")


def call(operation: str, **values: str) -> str:
    """Return the path of a page that tries an operation."""
    return f"{DOCS}?{urlencode({'operation': operation, 'try': '1', **values})}"


async def test_an_operation_is_found_read_and_tried(site: FrontDoor, visitor: Visitor) -> None:
    await load_log(site.store)
    page = visitor.page
    await visitor.fill_in_key()
    await page.get_by_role("link", name="API", exact=True).click()
    await page.get_by_role("link", name="Get the events log").click()
    await expect(page.locator(".parameters")).to_contain_text("Events of any of these pull")
    await expect(page.locator(".parameters")).to_contain_text("integer; at most 100 times")
    replies = page.locator(".reply").first
    await expect(replies).to_contain_text("EventPage")
    await page.get_by_label("owner").fill("acme")
    await page.get_by_label("repository").fill("widgets")
    await page.get_by_label("pull_request", exact=True).fill("444\n401")
    await page.get_by_label("per_page").fill("3")
    await page.get_by_role("button", name="Send").click()
    answer = page.locator("#answer")
    await expect(answer.locator(".badge")).to_have_text("200")
    await expect(answer.locator("pre")).to_contain_text('"pull_request": 444')
    await expect(page.locator("pre", has_text="curl")).to_contain_text(
        "/v1/repos/acme/widgets/logs?pull_request=444&pull_request=401&per_page=3"
    )
    await answer.locator("summary").click()
    await expect(answer.locator("dl")).to_contain_text('rel="first"')
    # The URL contains the whole call.
    await page.reload()
    await expect(answer.locator(".badge")).to_have_text("200")


async def test_a_required_choice_has_no_option_that_the_api_refuses(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    await visitor.go(f"{DOCS}?operation=groupTests&owner=acme&repository=widgets")
    await expect(page.get_by_label("by *")).to_have_value("pipeline")
    await expect(page.get_by_role("option", name="any")).to_have_count(0)
    await expect(page.locator("pre", has_text="curl")).to_contain_text("/groups?by=pipeline")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator("#answer .badge")).to_have_text("200")


async def test_every_operation_of_the_document_has_its_page(
    site: FrontDoor, visitor: Visitor
) -> None:
    await visitor.sign_in()
    page = visitor.page
    await visitor.go(DOCS)
    paths = (await site.get("/openapi.json")).json["paths"]
    operations = [each["operationId"] for item in paths.values() for each in item.values()]
    links = await page.locator("a.operation").all()
    hrefs = [str(await each.get_attribute("href")) for each in links]
    assert sorted(hrefs) == sorted(f"?operation={each}" for each in operations)
    client = page.context.request
    for each in operations:
        answer = await client.get(f"{site.base}{DOCS}?operation={each}")
        assert answer.status == 200, each
        assert len(await answer.body()) < 600_000, each
        assert ("Try it" in await answer.text()) == (each not in NOT_TRIED), each


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
async def test_axe_finds_nothing_even_without_scripts_or_room(
    browser: Browser, site: FrontDoor, scheme: str, width: int
) -> None:
    await load_log(site.store)
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    async with visit(browser, site, **options) as visitor:
        await visitor.sign_in()
        weights = await visitor.weigh()
        tried = call("listEvents", owner="acme", repository="widgets", per_page="100")
        for path in (DOCS, f"{DOCS}?operation=searchTests", tried):
            weights.clear()
            await visitor.go(path)
            assert sum(weights) <= MAX_PAGE_BYTES, path
            assert await visitor.find_violations() == [], path
            shown = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert shown <= width, path
    async with visit(browser, site, java_script_enabled=False) as visitor:
        await visitor.sign_in()
        await visitor.go(tried)
        await expect(visitor.page.locator("#answer pre")).to_contain_text('"pull_request": 444')


async def test_what_is_tried_is_bounded_text_and_never_more_than_the_key_may(
    site: FrontDoor, visitor: Visitor
) -> None:
    await load_hostile_log(site.store)
    page = visitor.page
    await visitor.sign_in()
    here = {"owner": "acme", "repository": "widgets"}
    hostile = "<script>alert(1)</script>\"onx='\u202e"
    for path, status in (
        (call("listEvents", **here, per_page="100"), "200"),
        (call("listEvents", owner="umbrella", repository="widgets"), "404"),
        (call("listEvents", owner="../..", repository="health/live"), "422"),
        (call("listEvents", **here, cursor=hostile), "422"),
        (call("searchTests", owner=hostile, repository_name=hostile, test_name=hostile), "422"),
        (call("getTest", **here, repository_name="widgets", test_id="a/../../b"), "422"),
        (call("listEvents"), "422"),
    ):
        await visitor.go(path)
        await expect(page.locator("#answer .badge")).to_have_text(status)
        assert await visitor.find_injected() == [], path
        assert "\u202e" not in await page.locator("body").inner_text()
        assert len(await page.locator("#answer pre").inner_text()) < 400_000
    # Neither changes nor streams can be tried, nor what is no operation.
    for operation in ("addQuarantine", "removeQuarantine", "streamEvents"):
        await visitor.go(call(operation, **here))
        await expect(page.get_by_role("heading", name="With curl")).to_be_visible()
        await expect(page.locator("#answer")).to_have_count(0)
    visitor.refusals = 2
    await visitor.go(call('"><script>alert(2)</script>'))
    await expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()
    await visitor.go(call("listEvents", owner="x" * MAX_QUERY_LENGTH))
    await expect(page.get_by_text("at most 4000 characters")).to_be_visible()


async def test_a_blank_line_of_the_form_is_no_value(site: FrontDoor) -> None:
    await load_log(site.store)
    site.client.cookie_jar.clear()
    client = Client(site)
    await client.sign_in()
    here = {"owner": "acme", "repository": "widgets"}
    page = await client.get(call("listEvents", **here, pull_request="444\r\n\r\n  \r\n"))
    answer = page.body.decode().partition('id="answer"')[2]
    assert "</svg>200</span>" in answer
    assert "/v1/repos/acme/widgets/logs?pull_request=444</code>" in answer


async def test_a_call_counts_and_needs_a_session(site: FrontDoor) -> None:
    await site.store.ensure_repository(WIDGETS)
    site.client.cookie_jar.clear()
    client = Client(site)
    path = call("listEvents", owner="acme", repository="widgets")
    assert (await client.get(path)).status == 303
    # Pages ignore a key in the header.
    assert (await client.get(path, Authorization=f"Bearer {site.key}")).status == 303
    await client.sign_in()
    assert (await client.get(path)).status == 200
