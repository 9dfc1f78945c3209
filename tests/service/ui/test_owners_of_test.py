"""The owners on the page of a test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from service.handlers import code_owners
from service.handlers.code_owners import OwnerSearch
from service.http.route import Route
from service.routes import GET_TEST_HEALTH
from service.ui.api import Api, ApiAnswer
from service.ui.pages import test as page_of_test
from tests.builders import WIDGETS, load_names
from tests.service.front_door import FrontDoor
from tests.service.processes import TIMEOUT
from tests.service.ui.client import Client
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.signed_in import read, sign_in

TESTS = "/ui/acme/widgets/tests"
# Markup, an attribute, a template, and text that would turn the text around it.
HOSTILE = (
    "@<img/src=x/onerror=alert(1)>",
    "@\"onmouseover='alert(2)'",
    "@{{7*7}}{%raw%}</dd>",
    "@\u202etxet",
)


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Wait for owners, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_of_test, "OWNERS_SECONDS", TIMEOUT)
        yield


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    await load_shown(door.store)
    return await sign_in(door)


def facts_of(page: str) -> str:
    return page.partition('<dl class="facts">')[2].partition("</dl>")[0]


def links_of(page: str) -> dict[str, str]:
    """Return the targets of the owners by their shown names, both as the browser reads them."""
    found = re.findall(r'<a dir="auto" href="([^"]*)">([^<]*)</a>', facts_of(page))
    return {unescape(name): unescape(target) for target, name in found}


async def test_each_owner_leads_to_its_tests(client: Client) -> None:
    await client.door.store.set_code_owners(WIDGETS, "tests/ @acme/hinges m+m@acme.example")
    page = await read(client, page_of(FLAKY))
    assert "<dt>Owners</dt>" in facts_of(page)
    links = links_of(page)
    assert links == {
        "@acme/hinges": f"{TESTS}?owner=%40acme%2Fhinges",
        "m+m@acme.example": f"{TESTS}?owner=m%2Bm%40acme.example",
    }
    for name, target in links.items():
        led = await read(client, target)
        assert f'name="owner" value="{name}"' in led
        assert f'aria-label="{FLAKY}"' in led


@pytest.mark.parametrize("file", [None, "docs/ @acme/docs", "* @all\ntests/"])
async def test_a_file_that_nobody_owns_has_no_owners(client: Client, file: str | None) -> None:
    await client.door.store.set_code_owners(WIDGETS, file)
    assert "Owners" not in facts_of(await read(client, page_of(FLAKY)))


async def test_of_many_owners_the_first_are_shown(client: Client) -> None:
    names = [f"@{number}" for number in range(7)]
    await client.door.store.set_code_owners(WIDGETS, f"* {' '.join(names)}")
    page = await read(client, page_of(FLAKY))
    assert [*links_of(page)] == names[:5]
    assert "@4</a> and 2 more</dd>" in page
    await client.door.store.set_code_owners(WIDGETS, f"* {' '.join(names[:5])}")
    page = await read(client, page_of(FLAKY))
    assert [*links_of(page)] == names[:5]
    assert "@4</a></dd>" in page


async def test_the_name_of_an_owner_is_only_text(client: Client) -> None:
    await client.door.store.set_code_owners(WIDGETS, f"* {' '.join(HOSTILE)}")
    page = await read(client, page_of(FLAKY))
    assert "<img" not in page
    assert "\u202e" not in page
    links = links_of(page)
    assert [*links] == [*HOSTILE[:3], r"@\u202etxet"]
    for target in links.values():
        assert re.fullmatch(rf"{TESTS}\?owner=[\w%.+-]+", target)
        assert f'aria-label="{FLAKY}"' in await read(client, target)


async def test_owners_that_are_not_found_in_time_hold_nothing_else_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.door.store.set_code_owners(WIDGETS, "* @all")
    await load_names(client.door.store, ["no file"])
    monkeypatch.setattr(code_owners, "READ_SECONDS", 600.0)
    async with (
        client.door.app[code_owners.OWNER_SLOTS].slot("another tenant"),
        asyncio.timeout(30),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(page_of_test, "OWNERS_SECONDS", 0.05)
            page = await read(client, page_of(FLAKY))
        assert "Owners" not in facts_of(await read(client, page_of("no file")))
    assert '<dt>Owners</dt><dd class="muted">not known now</dd>' in facts_of(page)
    assert "2 falls in the newest 14 verdicts" in page
    assert [*links_of(await read(client, page_of(FLAKY)))] == ["@all"]


async def test_a_report_that_takes_long_is_not_read_anew(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = Api.get

    async def answer(self: Api, route: Route, *others: Any) -> ApiAnswer:
        if route is GET_TEST_HEALTH and len(others) == 1:
            # The report without owners, which is asked for later.
            await asyncio.Event().wait()
        return await get(self, route, *others)

    await client.door.store.set_code_owners(WIDGETS, "* @all")
    monkeypatch.setattr(Api, "get", answer)
    monkeypatch.setattr(page_of_test, "OWNERS_SECONDS", 0.0)
    assert [*links_of(await read(client, page_of(FLAKY)))] == ["@all"]


async def test_owners_that_are_a_503_hold_nothing_else_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(*_: Any) -> None:
        raise StoreUnavailableError("finding the owners takes too long")

    await client.door.store.set_code_owners(WIDGETS, "* @all")
    monkeypatch.setattr(OwnerSearch, "find_owners", find)
    page = await read(client, page_of(FLAKY))
    assert "not known now" in facts_of(page)
    assert "2 falls in the newest 14 verdicts" in page
