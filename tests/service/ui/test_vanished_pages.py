"""A later page of a list whose rows are gone meanwhile does not say that the list is empty."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from indexing.models.executions import Conclusion, Execution
from indexing.models.quarantines import QuarantineRequest
from indexing.names import RepositoryName
from tests.builders import WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client
from tests.service.ui.shown import BROKEN, page_of
from tests.service.ui.signed_in import read, sign_in

QUARANTINES = "/ui/acme/widgets/quarantines"
TESTS = "/ui/acme/widgets/tests"
P, F = Conclusion.PASSED, Conclusion.FAILED


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    await door.store.ensure_repository(WIDGETS)
    return await sign_in(door)


async def load(client: Client, number: int, executions: list[Execution]) -> None:
    store = client.door.store
    await store.write_results(WIDGETS, {make_run(str(number), commit=f"c{number}"): executions})
    await store.refresh_tests(after())


def second_page(place: str, page: str) -> str:
    """Return the path of the second page of the list of a page, and check that it leads there."""
    found = re.search(r'href="([^"]*)" rel="next"', page)
    assert found is not None
    path, _, query = html.unescape(found[1]).partition("?")
    assert path in ("", place)
    return f"{place}?{query}"


async def test_others_are_in_force_after_the_last_page_of_quarantines_ended(client: Client) -> None:
    store = client.door.store
    for number in range(101):
        request = QuarantineRequest(f"test {number:03}", "flaps")
        added = await store.add_quarantine(WIDGETS, request, after(minutes=number - 200))
    second = second_page(QUARANTINES, await read(client, QUARANTINES))
    assert "test 100" in await read(client, second)
    await store.remove_quarantine(WIDGETS, added.quarantine.key.id, after())
    page = await read(client, second)
    assert "No more quarantines" in page
    assert "Nothing is quarantined" not in page
    page = await read(client, f"{QUARANTINES}?source=auto")
    assert "No quarantine matches" in page
    assert "Nothing is quarantined" not in page


async def test_other_tests_match_after_those_of_the_last_page_do_not(client: Client) -> None:
    broken = [(f"broken {number:02}", F) for number in range(51)]
    sound = [(f"sound {number:02}", P) for number in range(20)]
    await load(client, 0, make_executions(make_run("0"), [*broken, *sound], after(days=-5)))
    filtered = f"{TESTS}?health_status=broken&sort=test_name"
    second = second_page(TESTS, await read(client, filtered))
    assert "broken 50" in await read(client, second)
    for number in (1, 2, 3):
        passed = make_executions(make_run("1"), [("broken 50", P)], after(days=number - 5))
        await load(client, number, passed)
    page = await read(client, second)
    assert "No more tests" in page
    assert "No test matches" not in page
    assert f'href="{TESTS}?health_status=broken&amp;sort=test_name"' in page


async def test_a_failure_of_the_last_page_that_came_back_is_on_the_first(client: Client) -> None:
    for number in range(21):
        failed = make_executions(make_run(str(number)), [(BROKEN, F)], after(hours=number - 40))
        word = chr(ord("a") + number) * 3
        await load(client, number, [replace(each, failure_message=word) for each in failed])
    place = page_of(BROKEN)
    second = second_page(place, await read(client, place))
    assert ">aaa<" in await read(client, second)
    # The oldest failure is the newest one now.
    failed = make_executions(make_run("21"), [(BROKEN, F)], after(hours=-1))
    await load(client, 21, [replace(each, failure_message="aaa") for each in failed])
    page = await read(client, second)
    assert "No more failures" in page
    assert "No failure is stored" not in page


async def test_a_repository_of_the_last_page_that_became_ill_is_on_the_first(
    client: Client,
) -> None:
    # With the other one of the service, these fill a page.
    for number in range(9):
        await client.door.store.ensure_repository(RepositoryName("acme", f"part-{number}"))
    second = second_page("/ui/", await read(client, "/ui/"))
    assert "acme/widgets" in await read(client, second)
    await load(client, 0, make_executions(make_run("0"), [(BROKEN, F)], after(hours=-1)))
    page = await read(client, second)
    assert "No more repositories" in page
    assert "No report yet" not in page
