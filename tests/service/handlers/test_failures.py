"""GET …/tests/{test_id}/failures, and one of them."""

from __future__ import annotations

import uuid

from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import GADGETS, NOON, WIDGETS, make_executions, make_run
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor
from tests.service.handlers.results import fail

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}/failures"
HOSTILE = "=1+1\x1b[31m<script>\u202e"


async def test_a_failure_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    for number in range(12):
        await fail(
            door,
            number,
            failure_type="Stuck",
            failure_message=f"stuck for {number} s",
            failure_trace=pack_trace(f"at hinge {number}"),
        )
    answer = await door.get(HINGE)
    (row,) = answer.json["failures"]
    expected = {
        "id": row["id"],
        "exception_type": "Stuck",
        "exception_message": "stuck for 11 s",
        "failure_count": 12,
        "first_failure_at": "2026-09-01T12:00:00Z",
        "last_failure_at": "2026-09-01T12:11:00Z",
    }
    assert answer.json == {"size": 1, "per_page": 10, "failures": [expected]}
    assert [*row] == [*expected]
    detail = await door.get(f"{HINGE}/{row['id']}")
    events = detail.json["latest_events"]
    assert detail.json == expected | {"latest_events": events}
    assert [*detail.json] == [*expected, "latest_events"]
    assert [event["commit"] for event in events] == [f"c{n}" for n in range(11, 1, -1)]
    assert events[0] == {
        "id": events[0]["id"],
        "failed_at": "2026-09-01T12:11:00Z",
        "exception_message": "stuck for 11 s",
        "exception_stacktrace": "at hinge 11",
        "branch": "main",
        "commit": "c11",
        "pipeline_name": "ci",
        "job_name": "unit",
        "run_id": "11",
        "attempt": 1,
        "pull_request": 17,
        "job_url": "https://ci.example/7",
    }
    again = await door.get(f"{HINGE}/{row['id']}", **{"If-None-Match": detail.headers["ETag"]})
    assert again.status == 304


async def test_failures_are_walked_and_filtered_by_branch(door: FrontDoor) -> None:
    for number, message in enumerate(["a", "b", "c", "d"]):
        await fail(door, number, "main" if number % 2 else "topic", failure_message=message)
    pages = await door.walk(f"{HINGE}?per_page=3", "failures")
    assert [[row["exception_message"] for row in page] for page in pages] == [
        ["d", "c", "b"],
        ["a"],
    ]
    (topic,) = await door.walk(f"{HINGE}?branch=topic", "failures")
    assert [row["exception_message"] for row in topic] == ["c", "a"]


async def test_the_id_of_a_failure_is_that_of_its_executions(door: FrontDoor) -> None:
    await fail(door, 0)
    (row,) = (await door.get(HINGE)).json["failures"]
    executions = await door.get(HINGE.replace("failures", "executions"))
    assert executions.json["executions"][0]["failure_id"] == row["id"]
    assert (row["exception_type"], row["exception_message"]) == (None, None)


async def test_an_absent_failure_and_one_of_another_test_answer_alike(door: FrontDoor) -> None:
    await fail(door, 1)
    run = make_run()
    foreign = make_executions(run, [("foreign", Conclusion.FAILED)], repository=GADGETS)
    await door.store.write_results(GADGETS, {run: foreign})
    await door.store.refresh_tests(NOON)
    of_gadgets = f"{TESTS.replace('widgets', 'gadgets')}/{derive_test_id(GADGETS, 'foreign')}"
    (row,) = (await door.get(f"{of_gadgets}/failures")).json["failures"]
    absent = await door.get(f"{HINGE}/{uuid.uuid4()}")
    elsewhere = await door.get(f"{HINGE}/{row['id']}")
    unknown = await door.get(f"{TESTS}/{A_TEST_ID}/failures/{row['id']}")
    assert (absent.status, absent.body) == (404, elsewhere.body)
    assert unknown.body == absent.body
    assert (await door.get(f"{TESTS}/{A_TEST_ID}/failures")).status == 404


async def test_hostile_messages_and_traces_come_out_as_data(door: FrontDoor) -> None:
    told = {"failure_type": HOSTILE, "failure_message": HOSTILE}
    await fail(door, 1, **told, failure_trace=pack_trace(HOSTILE))
    (row,) = (await door.get(HINGE)).json["failures"]
    assert (row["exception_type"], row["exception_message"]) == (HOSTILE, HOSTILE)
    (event,) = (await door.get(f"{HINGE}/{row['id']}")).json["latest_events"]
    assert event["exception_stacktrace"] == HOSTILE
