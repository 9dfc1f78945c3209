"""GET /v1/ci/{owner}/repositories/{repository_name}/search/tests, after further loads."""

from __future__ import annotations

import pytest

from indexing.models.executions import Conclusion
from tests.builders import NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.service.front_door import SEARCH, FrontDoor
from tests.service.handlers.searching import fill, found


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    await fill(door)


async def test_the_most_executed_come_first(door: FrontDoor) -> None:
    run = make_run("4")
    again = make_executions(run, [("lid.fits[a]", Conclusion.PASSED)], after(minutes=1))
    await door.store.write_results(WIDGETS, {run: again})
    await door.store.refresh_tests(NOON)
    assert (await found(door, "test_name=*"))[0] == ("lid.fits[a]", "ci", "unit")
    assert (await found(door, "test_name=*&direction=asc"))[-1] == ("lid.fits[a]", "ci", "unit")


async def test_names_too_long_for_a_cursor_are_walked_all_the_same(door: FrontDoor) -> None:
    names = [f"{'长' * 600}{number}" for number in range(5)]
    await load_names(door.store, names, make_run("5"))
    target = f"{SEARCH}?test_name=%E9%95%BF*&sort=test_name&direction=asc&per_page=1"
    pages = await door.walk(target, "tests")
    assert [row["test_name"] for page in pages for row in page] == names
    cursor = (await door.get(target)).links["next"].partition("cursor=")[2]
    assert len(cursor) < 1_000
