"""GET /v1/ci/{owner}/repositories/{repository_name}/tests/{test_id}."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import (
    GADGETS,
    NOON,
    PULL,
    WIDGETS,
    after,
    load_names,
    make_executions,
    make_run,
)
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor

FIELDS = [
    "repository",
    "test_name",
    "test_id",
    "health_status",
    "last_conclusion",
    "failure_ratio",
    "flakiness_ratio",
    "success_ratio",
    "flaky_detection_enabled",
    "first_failure_at",
    "first_failure_commit",
    "first_failure_pull",
    "last_failure_at",
    "last_success_at",
    "test_framework",
    "test_framework_version",
    "test_programming_language",
    "test_filepath",
    "test_function_name",
]


async def test_the_detail_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    for number, conclusion in enumerate([Conclusion.FAILED, Conclusion.PASSED]):
        run = make_run(str(number), commit=f"c{number}", pull=PULL)
        executions = make_executions(
            run,
            [("hinge.opens", conclusion)],
            after(minutes=number),
            framework="pytest",
            framework_version="9",
            language="python",
            filepath="tests/hinge.py",
            function_name="opens",
        )
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)
    test_id = derive_test_id(WIDGETS, "hinge.opens")
    answer = await door.get(f"{TESTS}/{test_id}")
    assert [*answer.json] == FIELDS
    assert answer.json == {
        "repository": "acme/widgets",
        "test_name": "hinge.opens",
        "test_id": str(test_id),
        "health_status": "healthy",
        "last_conclusion": "passed",
        "failure_ratio": 0.5,
        "flakiness_ratio": 0.0,
        "success_ratio": 0.5,
        "flaky_detection_enabled": True,
        "first_failure_at": "2026-09-01T12:00:00Z",
        "first_failure_commit": "c0",
        "first_failure_pull": {
            "id": 900,
            "number": 17,
            "title": "Mend the hinge",
            "user": {"id": 4, "login": "mona"},
        },
        "last_failure_at": "2026-09-01T12:00:00Z",
        "last_success_at": "2026-09-01T12:01:00Z",
        "test_framework": "pytest",
        "test_framework_version": "9",
        "test_programming_language": "python",
        "test_filepath": "tests/hinge.py",
        "test_function_name": "opens",
    }
    assert "Link" not in answer.headers


async def test_a_test_of_other_branches_alone_has_zeros_and_nulls(door: FrontDoor) -> None:
    await load_names(door.store, ["hinge.opens"], make_run(branch="topic"), at=NOON)
    answer = (await door.get(f"{TESTS}/{derive_test_id(WIDGETS, 'hinge.opens')}")).json
    assert answer["health_status"] == answer["last_conclusion"] == "unknown"
    assert answer["success_ratio"] == 0
    assert answer["first_failure_pull"] is None
    assert answer["last_success_at"] is None


@pytest.mark.parametrize("spelling", [str.upper, str.lower])
async def test_the_case_of_an_id_does_not_matter(door: FrontDoor, spelling: type[str]) -> None:
    await load_names(door.store, ["hinge.opens"])
    test_id = spelling(str(derive_test_id(WIDGETS, "hinge.opens")))
    assert (await door.get(f"{TESTS}/{test_id}")).status == 200


async def test_an_absent_test_and_one_of_another_repository_answer_alike(door: FrontDoor) -> None:
    await load_names(door.store, ["hinge.opens"], repository=GADGETS)
    absent = await door.get(f"{TESTS}/{A_TEST_ID}")
    elsewhere = await door.get(f"{TESTS}/{derive_test_id(GADGETS, 'hinge.opens')}")
    assert (absent.status, absent.body) == (404, elsewhere.body)
