"""Signing in with a token of the code host, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from service.config.settings import Settings
from tests.builders import GADGETS, after, load_names
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, load_shown
from tests.service.ui.visitor import Visitor, visit
from tests.source_host import SourceHost, open_host

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

TOKEN = "ghp_of_mona"


@pytest_asyncio.fixture(loop_scope="session")
async def host() -> AsyncIterator[SourceHost]:
    async with open_host() as opened:
        opened.add("acme/widgets", TOKEN)
        opened.add("acme/gadgets", TOKEN)
        opened.add("acme/hidden")
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def site(stack: Settings, host: SourceHost) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(replace(stack, host_api_url=host.base)):
        await load_shown(opened.store)
        await load_names(opened.store, ["sound"], repository=GADGETS)
        yield opened


async def fill(visitor: Visitor, token: str, repository: str) -> None:
    await visitor.page.get_by_label("Key or token").fill(token)
    await visitor.page.get_by_label("Repository, with a token").fill(repository)
    await visitor.page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)
async def test_a_person_signs_in_with_a_token_until_it_is_revoked(
    site: FrontDoor, host: SourceHost, visitor: Visitor
) -> None:
    page = visitor.page
    # Three forms to sign in, and one name of a repository, are refused.
    visitor.refusals = 4
    await visitor.go("/ui/")
    assert await visitor.find_violations() == []
    for token, repository, said in (
        ("ghp_made_up", "acme/widgets", "no token that the code host accepts"),
        (TOKEN, "", "name a repository that it can read"),
        (TOKEN, "acme/hidden", "shows this token no repository of that name"),
    ):
        await fill(visitor, token, repository)
        await expect(page.get_by_role("alert")).to_contain_text(said)
        assert await visitor.find_violations() == []
    await expect(page.get_by_label("Repository, with a token")).to_have_value("acme/hidden")
    await fill(visitor, TOKEN, "acme/widgets")
    await expect(page.get_by_role("link", name="acme/widgets")).to_be_visible()
    assert await visitor.find_violations() == []

    await page.get_by_label("Open a repository").fill("gadgets")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("written OWNER/NAME")
    assert await visitor.find_violations() == []
    await page.get_by_label("Open a repository").fill("acme/gadgets")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="acme/gadgets")).to_be_visible()
    await page.get_by_role("link", name="mergewatch: all repositories").click()
    await page.get_by_role("link", name="acme/widgets").click()
    await page.get_by_label("Find a test by name").fill("hinge")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name=FLAKY).first).to_be_visible()

    host.readable.pop(TOKEN)
    site.clock.now = after(seconds=60)
    await page.reload()
    await expect(page.get_by_role("status")).to_contain_text("Your session has ended")
    await expect(page.get_by_label("Repository, with a token")).to_have_value("acme/widgets")
    assert await visitor.find_violations() == []
    host.add("acme/widgets", TOKEN)
    site.clock.now = after(minutes=2)
    await fill(visitor, TOKEN, "acme/widgets")
    await expect(page.get_by_role("link", name=FLAKY).first).to_be_visible()
    await page.get_by_text("token", exact=True).click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await visitor.go("/ui/acme/widgets")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_it_works_without_scripts_on_a_telephone(site: FrontDoor, browser: Browser) -> None:
    size = {"viewport": {"width": 390, "height": 800}, "java_script_enabled": False}
    async with visit(browser, site, **size) as visitor:
        await visitor.go("/ui/")
        await fill(visitor, TOKEN, "acme/widgets")
        page = visitor.page
        await page.get_by_label("Open a repository").fill("acme/gadgets")
        await page.get_by_role("button", name="Open").click()
        await expect(page.get_by_role("heading", name="acme/gadgets")).to_be_visible()
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
