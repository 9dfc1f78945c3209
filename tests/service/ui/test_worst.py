"""The worst groups lead to their tests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from service.config.settings import Settings
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async for door in open_door(Settings(data_dir=tmp_path)):
        door.key = await door.add_key(name="on call", scope=Scope.READ)
        door.client.cookie_jar.clear()
        yield Client(door)


async def load_broken(door: FrontDoor, name: str, filepath: str | None, job: str = "unit") -> None:
    for number in range(5):
        run = make_run(f"{name}{filepath}{number}", commit=f"{number:040}", job=job)
        executions = make_executions(
            run, [(name, Conclusion.FAILED)], after(hours=number - 6), filepath=filepath
        )
        await door.store.write_results(WIDGETS, {run: executions})


async def test_a_directory_leads_to_the_tests_that_were_counted_in_it(client: Client) -> None:
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    for name, filepath in (
        ("a", "src/box/test_lid.py"),
        ("pkg/hinge/TestSwing", None),
        ("b", "src\\win\\test_lid.py"),
        ("c", "odd*/test_lid.py"),
        ("d", "test_top.py"),
    ):
        await load_broken(client.door, name, filepath)
    await store.refresh_tests(NOON)
    await client.sign_in()
    page = (await client.get("/ui/acme/widgets/worst")).body.decode()
    found = set(re.findall(r'href="/ui/acme/widgets/tests\?([^"]*)"', page))
    assert found == {
        "test_filepath=src%2Fbox%2F%2A",
        "test_name=pkg%2Fhinge%2F%2A",
        "test_filepath=src%5Cwin%5C%2A",
        "job_name=unit",
    }
    for query, name in (
        ("test_filepath=src%2Fbox%2F%2A", "a"),
        ("test_name=pkg%2Fhinge%2F%2A", "pkg/hinge/TestSwing"),
    ):
        rows = (await client.get(f"/ui/acme/widgets/tests?{query}")).body.decode()
        assert re.findall(r'class="name"[^>]*aria-label="([^"]*)"', rows) == [name]


async def test_only_jobs_whose_names_fit_into_an_address_are_links(client: Client) -> None:
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    short, long = "\u6f22" * 220, "\u5b57" * 900
    for job in (short, long):
        await load_broken(client.door, f"test of {job[0]}", None, job)
    await store.refresh_tests(NOON)
    await client.sign_in()
    page = (await client.get("/ui/acme/widgets/worst")).body.decode()
    assert long[:100] in page
    [link] = re.findall(r'href="(/ui/acme/widgets/tests\?job_name=[^"]*)"', page)
    led = await client.get(link)
    assert led.status == 200
    assert f"test of {short[0]}" in led.body.decode()


async def test_an_owner_leads_to_its_tests_and_so_does_no_owner(client: Client) -> None:
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    for name, filepath in (("a", "web/a.js"), ("b", "docs/b.py"), ("c", None)):
        await load_broken(client.door, name, filepath)
    await store.refresh_tests(NOON)
    await store.set_code_owners(WIDGETS, "/web/ @acme/web&co")
    await client.sign_in()
    page = (await client.get("/ui/acme/widgets/worst")).body.decode()
    found = set(re.findall(r'href="(/ui/acme/widgets/tests\?owner=[^"]*)"', page))
    assert found == {
        "/ui/acme/widgets/tests?owner=%40acme%2Fweb%26co",
        "/ui/acme/widgets/tests?owner=none",
    }
    assert await shown(client, "owner=%40acme%2Fweb%26co") == ["a"]
    assert await shown(client, "owner=none") == ["b", "c"]
    # The empty field of a form is no filter.
    assert await shown(client, "owner=") == ["a", "b", "c"]
    view = "owner=%40acme%2Fweb%26co&owner=none&sort=test_name"
    assert await shown(client, view) == ["a", "b", "c"]
    page = (await client.get(f"/ui/acme/widgets/tests?{view}")).body.decode()
    assert 'id="owner" name="owner" value="@acme/web&amp;co"' in page
    assert '<input type="hidden" name="owner" value="none">' in page
    (export,) = re.findall(r'href="(/ui/acme/widgets/tests\.csv\?[^"]*)"', page)
    assert export.replace("&amp;", "&").endswith(f"?{view}")
    table = (await client.get("/ui/acme/widgets/tests.csv?owner=none")).body.decode()
    assert {line.split(",")[1] for line in table.splitlines()[1:]} == {"b", "c"}


async def shown(client: Client, query: str) -> list[str]:
    """Return the names of the tests of a view."""
    page = (await client.get(f"/ui/acme/widgets/tests?{query}&direction=asc")).body.decode()
    return sorted(re.findall(r'class="name"[^>]*aria-label="([^"]*)"', page))


async def test_the_slowest_tests_claim_no_total_that_is_not_known(client: Client) -> None:
    store = client.door.store
    await store.ensure_repository(WIDGETS)
    # Not every execution states how long it took.
    for number, duration in enumerate((60.0, None, None)):
        run = make_run(f"{number}", commit=f"{number:040}")
        executions = make_executions(
            run, [("slow", Conclusion.PASSED)], after(hours=number - 6), duration=duration
        )
        await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)
    await client.sign_in()
    page = (await client.get("/ui/acme/widgets/worst")).body.decode()
    slowest = page.partition('id="slowest"')[2]
    assert "60\u00a0s" in slowest
    assert "3 executions" in slowest
    assert "in all" not in slowest
