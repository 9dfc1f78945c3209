"""GET …/tests/{test_id}/health?include=owners."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.owners.rules import MAX_OWNERS
from service.handlers import code_owners
from tests.builders import GADGETS, NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}/health"
OWNED = f"{HINGE}?include=owners"
FILE = "* @all\n*.js @web mail@acme.example @all\n/docs/\n"


async def load(door: FrontDoor, filepath: str | None, hour: int = 0) -> None:
    run = make_run(str(hour))
    made = make_executions(
        run, [("hinge", Conclusion.PASSED)], after(hours=hour), filepath=filepath
    )
    await door.store.write_results(WIDGETS, {run: made})
    await door.store.refresh_tests(NOON)


async def find_owners(door: FrontDoor) -> list[str]:
    answer = await door.get(OWNED)
    assert answer.status == 200, answer.body
    owners: list[str] = answer.json["owners"]
    return owners


@pytest.mark.parametrize(
    ("filepath", "owners"),
    [
        ("src/a.py", ["@all"]),
        ("src/b.js", ["@web", "mail@acme.example", "@all"]),
        ("src\\win\\b.js", ["@web", "mail@acme.example", "@all"]),
        ("docs/c.js", []),
        (None, []),
    ],
)
async def test_owners_are_those_of_the_file_of_the_test(
    door: FrontDoor, filepath: str | None, owners: list[str]
) -> None:
    await load(door, filepath)
    await door.store.set_code_owners(WIDGETS, FILE)
    assert await find_owners(door) == owners


async def test_owners_are_added_at_the_end_and_only_if_asked_for(door: FrontDoor) -> None:
    await load(door, "src/a.py")
    plain = await door.get(HINGE)
    assert [*plain.json] == ["health_status", "jobs", "jobs_count"]
    await door.store.set_code_owners(WIDGETS, FILE)
    same = await door.get(HINGE)
    assert (same.body, same.headers["ETag"]) == (plain.body, plain.headers["ETag"])
    owned = await door.get(f"{OWNED}&x=1")
    assert owned.body == plain.body[:-1] + b',"owners":["@all"]}'
    assert owned.headers["X-Ignored-Parameters"] == "x"
    assert (await door.get(OWNED, **{"If-None-Match": owned.headers["ETag"]})).status == 304
    assert (await door.get(OWNED, **{"If-None-Match": plain.headers["ETag"]})).status == 200


async def test_without_a_stored_file_nobody_owns_a_test(door: FrontDoor) -> None:
    await load(door, "src/a.py")
    # That of another repository does not count.
    await door.store.set_code_owners(GADGETS, FILE)
    assert await find_owners(door) == []


async def test_changes_of_owners_and_of_the_file_show_at_once(door: FrontDoor) -> None:
    await load(door, "src/a.py")
    await door.store.set_code_owners(WIDGETS, FILE)
    tag = (await door.get(OWNED)).headers["ETag"]
    await door.store.set_code_owners(WIDGETS, "*.py @python")
    changed = await door.get(OWNED, **{"If-None-Match": tag})
    assert (changed.status, changed.json["owners"]) == (200, ["@python"])
    await load(door, "src/a.js", hour=1)
    assert await find_owners(door) == []
    await door.store.set_code_owners(WIDGETS, FILE)
    assert await find_owners(door) == ["@web", "mail@acme.example", "@all"]
    await door.store.set_code_owners(WIDGETS, None)
    assert await find_owners(door) == []


async def test_a_file_of_many_owners_has_the_first_hundred(door: FrontDoor) -> None:
    await load(door, "src/a.py")
    names = [f"@{number}" for number in range(MAX_OWNERS + 1)]
    await door.store.set_code_owners(WIDGETS, f"* {' '.join(names)}")
    assert await find_owners(door) == names[:MAX_OWNERS]


async def test_an_unknown_test_and_one_of_another_repository_have_no_owners(
    door: FrontDoor,
) -> None:
    await load_names(door.store, ["foreign"], repository=GADGETS)
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/health?include=owners")
    foreign = derive_test_id(GADGETS, "foreign")
    elsewhere = await door.get(f"{TESTS}/{foreign}/health?include=owners")
    assert (absent.status, absent.body) == (404, elsewhere.body)


async def test_a_search_for_owners_that_takes_too_long_is_a_503(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(door, "src/a.py")
    await door.store.set_code_owners(WIDGETS, FILE)
    async with door.app[code_owners.OWNER_SLOTS].slot("another tenant"):
        with monkeypatch.context() as patch:
            patch.setattr(code_owners, "READ_SECONDS", 0.05)
            answer = await door.get(OWNED)
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        # Without owners, nothing has to be searched for.
        assert (await door.get(HINGE)).status == 200
    assert await find_owners(door) == ["@all"]


async def test_a_test_without_a_file_waits_for_no_search(door: FrontDoor) -> None:
    await load(door, None)
    await door.store.set_code_owners(WIDGETS, FILE)
    async with door.app[code_owners.OWNER_SLOTS].slot("another tenant"):
        assert await find_owners(door) == []
