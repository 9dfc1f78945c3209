"""GET …/tests/stats/{stat}."""

from __future__ import annotations

from itertools import pairwise

import pytest

from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.trends import Stat
from tests.builders import (
    GADGETS,
    NOON,
    WIDGETS,
    after,
    load_history,
    load_names,
    make_executions,
    make_run,
)
from tests.contracts.quarantining import load as load_results
from tests.contracts.quarantining import set_up
from tests.service.front_door import TESTS, FrontDoor

P, F, S = Conclusion.PASSED, Conclusion.FAILED, Conclusion.SKIPPED
STATS = f"{TESTS}/stats"
THREE_DAYS = "start=2026-08-30T23:00:00Z&end=2026-09-02T00:00:00Z"


async def load(door: FrontDoor) -> None:
    await load_history(door.store, "hinge", "linux", [P, F, F, F], duration=0.5)
    await load_history(door.store, "latch", "mac", [S, P], duration=1)
    run = make_run("flaky", job="mac", commit="c00")
    await door.store.write_results(WIDGETS, {run: make_executions(run, [("latch", F)], NOON)})
    await door.store.refresh_tests(NOON)
    await load_names(door.store, ["foreign"], repository=GADGETS)


async def read(door: FrontDoor, stat: str, query: str = THREE_DAYS) -> tuple[object, list[object]]:
    body = (await door.get(f"{STATS}/{stat}?{query}")).json
    assert body["stat"] == stat
    return body["value"], [bar["value"] for bar in body["value_over_time"]]


async def test_each_figure_has_every_day_of_the_range(door: FrontDoor) -> None:
    await load(door)
    assert {stat: await read(door, stat) for stat in Stat} == {
        "total_tests": (2, [1, 2, 2]),
        "healthy_tests": (0, [1, 1, 0]),
        "flaky_tests": (1, [0, 0, 1]),
        "broken_tests": (1, [0, 0, 1]),
        "unknown_tests": (0, [0, 1, 0]),
        "quarantined_tests": (0, [0, 0, 0]),
        "executions": (6, [1, 2, 3]),
        "failed_executions": (4, [1, 1, 2]),
        "skipped_executions": (1, [0, 1, 0]),
        "flaky_verdicts": (1, [0, 0, 1]),
        "mean_duration": (3.5 / 5, [0.5, 0.75, 0.75]),
    }


async def test_a_series_has_the_fields_of_the_interface(door: FrontDoor) -> None:
    await load(door)
    answer = await door.get(f"{STATS}/executions?{THREE_DAYS}&pipeline_name=ci&job_name=mac")
    assert answer.json == {
        "stat": "executions",
        "value": 3,
        "value_over_time": [
            {"start": "2026-08-30T00:00:00Z", "end": "2026-08-31T00:00:00Z", "value": 0},
            {"start": "2026-08-31T00:00:00Z", "end": "2026-09-01T00:00:00Z", "value": 1},
            {"start": "2026-09-01T00:00:00Z", "end": "2026-09-02T00:00:00Z", "value": 2},
        ],
    }
    again = await door.get(
        f"{STATS}/executions?{THREE_DAYS}&pipeline_name=ci&job_name=mac",
        **{"If-None-Match": answer.headers["ETag"]},
    )
    assert again.status == 304
    run = make_run("later", job="mac")
    await door.store.write_results(WIDGETS, {run: make_executions(run, [("latch", P)], NOON)})
    await door.store.refresh_tests(NOON)
    assert (await read(door, "executions"))[0] == 7


async def test_by_default_the_series_is_of_the_last_30_days(door: FrontDoor) -> None:
    bars = (await door.get(f"{STATS}/mean_duration")).json["value_over_time"]
    assert (bars[0]["start"], bars[-1]["end"]) == ("2026-08-02T00:00:00Z", "2026-09-02T00:00:00Z")
    assert all(before["end"] == bar["start"] for before, bar in pairwise(bars))
    assert {bar["value"] for bar in bars} == {None}
    nothing = "start=2026-08-30T00:00:00Z&end=2026-08-30T00:00:00Z"
    assert await read(door, "executions", nothing) == (None, [])


async def test_quarantined_tests_are_counted_once_each(door: FrontDoor) -> None:
    add = door.store.add_quarantine
    await door.store.ensure_repository(WIDGETS)
    await add(WIDGETS, QuarantineRequest("hinge", "r"), after(days=-2))
    await add(WIDGETS, QuarantineRequest("hinge", "r", branch="release/*"), after(days=-1))
    await add(WIDGETS, QuarantineRequest("latch", "r", expires_at=after(hours=-14)), after(days=-1))
    await add(WIDGETS, QuarantineRequest("bolt", "r"), after(days=-1))
    page = await door.store.list_quarantines(QuarantineQuery(WIDGETS, NOON), Anchor(), None)
    (bolt,) = [row for row in page.rows if row.test_name == "bolt"]
    await door.store.remove_quarantine(WIDGETS, bolt.key.id, NOON)
    days = "start=2026-08-29T00:00:00Z&end=2026-09-03T00:00:00Z"
    assert await read(door, "quarantined_tests", days) == (1, [0, 1, 2, 1, 1])
    await door.store.prune(after(days=-2), NOON)
    assert await read(door, "quarantined_tests", days) == (1, [None, 1, 2, 1, 1])


async def test_a_quarantine_that_was_taken_back_and_began_again_counts_each_time(
    door: FrontDoor,
) -> None:
    await set_up(door.store, auto_quarantine=True)
    await load_results(door.store, "FFF", at=-3, now=NOON)
    await load_results(door.store, "P", at=-0.5, now=after(days=2))
    await load_results(door.store, "FFF", at=93, now=after(days=4))
    door.clock.now = after(days=4, hours=1)
    days = "start=2026-09-01T00:00:00Z&end=2026-09-06T00:00:00Z"
    assert await read(door, "quarantined_tests", days) == (1, [1, 1, 0, 0, 1])


async def test_a_quarantine_that_ends_before_it_begins_counts_on_no_day(door: FrontDoor) -> None:
    await door.store.ensure_repository(WIDGETS)
    late = QuarantineRequest("hinge", "r", expires_at=after(days=-1))
    await door.store.add_quarantine(WIDGETS, late, NOON)
    days = "start=2026-08-29T00:00:00Z&end=2026-09-03T00:00:00Z"
    assert await read(door, "quarantined_tests", days) == (0, [0, 0, 0, 0, 0])


async def test_without_flaky_detection_flaky_tests_are_healthy(door: FrontDoor) -> None:
    await load(door)
    await door.store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    await door.store.refresh_tests(NOON)
    assert await read(door, "healthy_tests") == (1, [1, 1, 1])
    assert await read(door, "flaky_tests") == (0, [0, 0, 0])
    assert await read(door, "broken_tests") == (1, [0, 0, 1])


@pytest.mark.parametrize("year", ["0001", "9999"])
async def test_the_ends_of_time_are_days_too(door: FrontDoor, year: str) -> None:
    query = f"start={year}-01-01T00:00:00Z&end={year}-12-31T23:59:59Z"
    assert len((await read(door, "total_tests", query))[1]) == 365
