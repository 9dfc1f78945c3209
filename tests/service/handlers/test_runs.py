"""GET …/runs."""

from __future__ import annotations

import pytest

from indexing.models.executions import Conclusion
from tests.builders import NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor

RUNS = "/v1/ci/acme/repositories/widgets/runs"
HOSTILE = "=1+1\x1b[31m<script>\u202e"


async def load(door: FrontDoor, count: int = 5) -> None:
    for number in range(count):
        run = make_run(
            str(number), commit=f"c{number}", pull=PULL, job_url=f"https://ci.example/{number}"
        )
        results = [(each.value, each) for each in Conclusion] + [("again", Conclusion.PASSED)]
        executions = make_executions(run, results, after(minutes=-number))
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)


async def test_a_run_has_the_fields_of_the_interface_in_their_order(door: FrontDoor) -> None:
    await load(door, 1)
    answer = await door.get(RUNS)
    expected = {
        "run_id": "0",
        "attempt": 1,
        "pipeline_name": "ci",
        "job_name": "unit",
        "branch": "main",
        "commit": "c0",
        "pull_request": 17,
        "job_url": "https://ci.example/0",
        "finished_at": "2026-09-01T12:00:00Z",
        "passed": 2,
        "failed": 1,
        "skipped": 1,
        "is_infrastructure_failure": False,
    }
    assert answer.json == {"size": 1, "per_page": 10, "runs": [expected]}
    assert [*answer.json["runs"][0]] == [*expected]
    again = await door.get(RUNS, **{"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304


async def test_runs_are_walked_newest_first_and_filtered(door: FrontDoor) -> None:
    await load(door)
    pages = await door.walk(f"{RUNS}?per_page=2", "runs")
    assert [[row["run_id"] for row in page] for page in pages] == [["0", "1"], ["2", "3"], ["4"]]
    for query, size in {
        "commit=c1&commit=c3": 2,
        "branch=topic": 0,
        "branch=main&pull_request=17": 5,
        "pull_request=18": 0,
        "pipeline_name=ci&job_name=unit": 5,
        "job_name=windows": 0,
    }.items():
        assert (await door.get(f"{RUNS}?{query}")).json["size"] == size, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pull_request=x", "pull_request"),
        ("branch=", "branch"),
        ("commit=", "commit"),
        ("per_page=0", "per_page"),
        ("cursor=x", "cursor"),
    ],
)
async def test_each_wrong_parameter_is_named(door: FrontDoor, query: str, field: str) -> None:
    assert (await door.get(f"{RUNS}?{query}")).wrong_fields == [("query", field)]


async def test_hostile_names_come_out_as_data(door: FrontDoor) -> None:
    run = make_run(HOSTILE, pipeline=HOSTILE, job=HOSTILE, branch=HOSTILE, commit=HOSTILE)
    await door.store.write_results(
        WIDGETS, {run: make_executions(run, [("hinge", Conclusion.PASSED)])}
    )
    await door.store.refresh_tests(NOON)
    (row,) = (await door.get(RUNS)).json["runs"]
    names = ("run_id", "pipeline_name", "job_name", "branch", "commit")
    assert {row[name] for name in names} == {HOSTILE}
