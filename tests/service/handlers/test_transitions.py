"""GET …/health-transitions, and …/tests/{test_id}/health-transitions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import GADGETS, NOON, WIDGETS, load_history, load_names
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor

P, F = Conclusion.PASSED, Conclusion.FAILED
TRANSITIONS = "/v1/ci/acme/repositories/widgets/health-transitions"
HOSTILE = "=1+1\x1b[31m<script>\u202e"
HINGE = derive_test_id(WIDGETS, "hinge")


async def test_a_change_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    await load_history(door.store, "hinge", HOSTILE, [P, F, F, F])
    await door.store.refresh_tests(NOON)
    answer = await door.get(TRANSITIONS)
    change = {
        "at": "2026-09-01T12:00:00Z",
        "pipeline_name": "ci",
        "job_name": HOSTILE,
        "previous_health_status": "healthy",
        "health_status": "broken",
        "exception_type": None,
        "commit": "c00",
        "pull_request": None,
    }
    (row,) = answer.json["transitions"]
    named = {"test_id": str(HINGE), "test_name": "hinge"}
    assert row == change | named
    assert list(row) == ["at", *named, *list(change)[1:]]
    assert (answer.json["size"], answer.json["per_page"]) == (1, 10)
    of_test = await door.get(f"{TESTS}/{HINGE}/health-transitions")
    assert of_test.json == {"transitions": [change], "first_activity_at": "2026-08-29T12:00:00Z"}
    for target, before in ((TRANSITIONS, answer), (f"{TESTS}/{HINGE}/health-transitions", of_test)):
        again = await door.get(target, **{"If-None-Match": before.headers["ETag"]})
        assert again.status == 304
    await load_history(door.store, "latch", "unit", [P, F, F, F])
    await door.store.refresh_tests(NOON)
    assert (await door.get(TRANSITIONS)).json["size"] == 2


async def test_pages_link_to_each_other(door: FrontDoor) -> None:
    for name in ("hinge", "latch", "bolt"):
        await load_history(door.store, name, "unit", [P, F, F, F])
    await door.store.refresh_tests(NOON)
    pages = await door.walk(f"{TRANSITIONS}?per_page=2&health_status=broken", "transitions")
    assert [len(page) for page in pages] == [2, 1]
    assert (await door.get(f"{TRANSITIONS}?health_status=flaky")).json["transitions"] == []


async def test_the_longest_range_is_walked_to_its_end_later(door: FrontDoor) -> None:
    """The first page fixed the range, so it does not get longer with the time."""
    for name in ("hinge", "latch"):
        await load_history(door.store, name, "unit", [P, F, F, F])
    await door.store.refresh_tests(NOON)
    start = (door.clock.now - timedelta(days=400)).strftime("%Y-%m-%dT%H:%M:%SZ")
    first = await door.get(f"{TRANSITIONS}?per_page=1&start={start}")
    door.clock.now += timedelta(days=1)
    second = await door.get(first.links["next"])
    assert (second.status, second.json["size"]) == (200, 1)
    assert (await door.get(f"{TRANSITIONS}?start={start}")).status == 422


@pytest.mark.parametrize("wrong", ["health_status=ill", "per_page=101", "start=soon"])
async def test_what_is_wrong_is_named(door: FrontDoor, wrong: str) -> None:
    answer = await door.get(f"{TRANSITIONS}?{wrong}")
    assert [name for _, name in answer.wrong_fields] == [wrong.partition("=")[0]]


async def test_an_unknown_test_and_one_of_another_repository_answer_alike(door: FrontDoor) -> None:
    await load_names(door.store, ["foreign"], repository=GADGETS)
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/health-transitions")
    elsewhere = await door.get(f"{TESTS}/{derive_test_id(GADGETS, 'foreign')}/health-transitions")
    assert (absent.status, absent.body) == (404, elsewhere.body)
