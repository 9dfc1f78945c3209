"""GET …/tests/{test_id}/health."""

from __future__ import annotations

import uuid

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import GADGETS, NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor

HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}/health"
HOSTILE = "=1+1\x1b[31m<script>\u202e"


async def load(door: FrontDoor, conclusion: Conclusion, number: int, name: str = "unit") -> None:
    run = make_run(str(number), job=name, pipeline=name, commit=f"c{number}")
    executions = make_executions(
        run, [("hinge", conclusion)], after(hours=number - 5), duration=0.5
    )
    await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)


async def test_a_report_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    for number in range(3):
        await load(door, Conclusion.FAILED, number)
    answer = await door.get(HINGE)
    assert answer.json == {
        "health_status": "broken",
        "jobs": [
            {
                "pipeline_name": "unit",
                "job_name": "unit",
                "health_status": "broken",
                "is_live": True,
                "rule": "failing_now",
                "explanation": "Broken: its newest 3 verdicts failed.",
                "executions_count": 3,
                "failed_executions_count": 3,
                "mean_duration": 0.5,
                "last_execution_at": "2026-09-01T09:00:00Z",
                "verdicts": [
                    {
                        "verdict": "failed",
                        "commit": f"c{number}",
                        "first_execution_at": f"2026-09-01T0{7 + number}:00:00Z",
                        "last_execution_at": f"2026-09-01T0{7 + number}:00:00Z",
                    }
                    for number in range(3)
                ],
            }
        ],
        "jobs_count": 1,
    }
    again = await door.get(HINGE, **{"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304
    await load(door, Conclusion.PASSED, 4)
    assert (await door.get(HINGE)).json["health_status"] == "healthy"


async def test_an_unknown_test_and_one_of_another_repository_answer_alike(door: FrontDoor) -> None:
    await load_names(door.store, ["foreign"], repository=GADGETS)
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/health")
    elsewhere = await door.get(f"{TESTS}/{derive_test_id(GADGETS, 'foreign')}/health")
    assert (absent.status, absent.body) == (404, elsewhere.body)
    assert (await door.get(f"{TESTS}/{uuid.uuid4()}/health")).wrong_fields == [("path", "test_id")]


async def test_hostile_names_come_out_as_data_and_in_no_sentence(door: FrontDoor) -> None:
    await load(door, Conclusion.FAILED, 1, HOSTILE)
    (job,) = (await door.get(HINGE)).json["jobs"]
    assert (job["pipeline_name"], job["job_name"]) == (HOSTILE, HOSTILE)
    assert HOSTILE not in job["explanation"]
