"""GET …/tests/{test_id}/stats/{stat}."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.trends import TestStat
from tests.builders import (
    FOREIGN,
    NOON,
    WIDGETS,
    load_history,
    load_names,
    make_executions,
    make_run,
)
from tests.service.front_door import A_TEST_ID, TESTS, FrontDoor

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
HINGE = f"{TESTS}/{derive_test_id(WIDGETS, 'hinge')}/stats"
THREE_DAYS = "start=2026-08-30T23:00:00Z&end=2026-09-02T00:00:00Z"


async def load(door: FrontDoor) -> None:
    await load_history(door.store, "hinge", "linux", [S, P, F, P], duration=0.5)
    run = make_run("again", job="linux", commit="c00")
    executions = make_executions(run, [("hinge", F)], NOON, duration=2.25)
    await door.store.write_results(WIDGETS, {run: executions})
    await load_history(door.store, "latch", "linux", [F])
    await door.store.refresh_tests(NOON)


async def test_each_figure_has_every_day_of_the_range(door: FrontDoor) -> None:
    await load(door)
    found = {}
    for stat in TestStat:
        body = (await door.get(f"{HINGE}/{stat}?{THREE_DAYS}")).json
        assert body["stat"] == stat
        found[stat.value] = (body["value"], [bar["value"] for bar in body["value_over_time"]])
    assert found == {
        "success_count": (2, [1, 0, 1]),
        "failure_count": (2, [0, 1, 1]),
        "skipped_count": (0, [0, 0, 0]),
        "flaky_count": (1, [0, 0, 1]),
        "mean_duration": (3.75 / 4, [0.5, 0.5, 1.375]),
        "max_duration": (2.25, [0.5, 0.5, 2.25]),
    }
    filtered = await door.get(f"{HINGE}/mean_duration?{THREE_DAYS}&job_name=mac")
    assert [*filtered.json] == ["stat", "value", "value_over_time"]
    assert filtered.json["value"] is None
    assert filtered.json["value_over_time"][0] == {
        "start": "2026-08-30T00:00:00Z",
        "end": "2026-08-31T00:00:00Z",
        "value": None,
    }
    again = await door.get(
        f"{HINGE}/mean_duration?{THREE_DAYS}&job_name=mac",
        **{"If-None-Match": filtered.headers["ETag"]},
    )
    assert again.status == 304


async def test_a_test_that_is_not_of_the_repository_is_not_found(door: FrontDoor) -> None:
    await load(door)
    await load_names(door.store, ["hinge"], repository=FOREIGN)
    foreign = await door.get(f"{TESTS}/{derive_test_id(FOREIGN, 'hinge')}/stats/failure_count")
    absent = await door.get(f"{TESTS}/{A_TEST_ID}/stats/failure_count")
    assert (foreign.status, foreign.body) == (404, absent.body)


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("/executions", ("path", "stat")),
        ("/failure_count?start=now", ("query", "start")),
        ("/failure_count?start=2024-01-01T00:00:00Z", ("query", "start")),
    ],
)
async def test_what_is_wrong_is_named(door: FrontDoor, target: str, wrong: tuple[str, str]) -> None:
    await load(door)
    assert (await door.get(HINGE + target)).wrong_fields == [wrong]


@pytest.mark.parametrize("year", ["0001", "9999"])
async def test_the_first_and_the_last_days_of_all_are_empty(door: FrontDoor, year: str) -> None:
    await load(door)
    day = "01-01" if year == "0001" else "12-31"
    query = f"start={year}-{day}T00:00:00Z&end={year}-{day}T23:59:59Z"
    answer = await door.get(f"{HINGE}/success_count?{query}")
    assert (answer.status, answer.json["value"]) == (200, 0)
