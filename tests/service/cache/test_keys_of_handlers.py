"""Answers whose cache keys are made by handlers are kept apart by all that they depend on."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from tests.builders import GADGETS, NOON, WIDGETS, load_history, load_names
from tests.service.front_door import TESTS, FrontDoor

P, F = Conclusion.PASSED, Conclusion.FAILED
OWNED = "/v1/ci/acme/repositories"
TRANSITIONS = f"{OWNED}/widgets/health-transitions"
STATS = f"{TESTS}/stats"
HINGE, LATCH = (f"{TESTS}/{derive_test_id(WIDGETS, name)}/stats" for name in ("hinge", "latch"))
FIRST_DAY = "start=2026-08-31T00:00:00Z&end=2026-09-01T00:00:00Z"
LAST_DAY = "start=2026-09-01T00:00:00Z&end=2026-09-02T00:00:00Z"
BOTH_DAYS = "start=2026-08-31T00:00:00Z&end=2026-09-02T00:00:00Z"

# How the cache works does not depend on the store.
pytestmark = pytest.mark.parametrize("stack", ["sqlite"], indirect=True)


@pytest.mark.parametrize(
    ("target", "others"),
    [
        (
            TRANSITIONS,
            [
                f"{TRANSITIONS}?health_status=flaky",
                f"{TRANSITIONS}?per_page=1",
                f"{TRANSITIONS}?start=2026-09-01T12:01:00Z",
                f"{TRANSITIONS}?end=2026-09-01T11:59:00Z",
            ],
        ),
        (
            f"{STATS}/executions?{LAST_DAY}",
            [
                f"{STATS}/failed_executions?{LAST_DAY}",
                f"{STATS}/executions?{BOTH_DAYS}",
                f"{STATS}/executions?{LAST_DAY}&job_name=mac",
                f"{STATS}/executions?{LAST_DAY}&pipeline_name=none",
            ],
        ),
        (
            f"{HINGE}/success_count?{LAST_DAY}",
            [
                f"{LATCH}/success_count?{LAST_DAY}",
                f"{HINGE}/failure_count?{LAST_DAY}",
                f"{HINGE}/success_count?{BOTH_DAYS}",
                f"{HINGE}/success_count?{LAST_DAY}&job_name=linux",
                f"{HINGE}/success_count?{LAST_DAY}&pipeline_name=none",
            ],
        ),
        (
            OWNED,
            [f"{OWNED}?sort=worst", f"{OWNED}?per_page=1", f"{OWNED}?repository=widgets"],
        ),
    ],
)
async def test_requests_that_differ_in_one_parameter_share_no_answer(
    door: FrontDoor, target: str, others: list[str]
) -> None:
    await load(door)
    answer = (await door.get(target)).json
    assert [other for other in others if (await door.get(other)).json == answer] == []


async def test_tests_are_counted_for_each_range(door: FrontDoor) -> None:
    await load(door)
    for days, count in ((FIRST_DAY, 2), (LAST_DAY, 3)):
        assert (await door.get(f"{STATS}/total_tests?{days}")).json["value"] == count


async def load(door: FrontDoor) -> None:
    await load_history(door.store, "hinge", "linux", [P, F, F, F])
    await load_history(door.store, "hinge", "mac", [P, P])
    await load_history(door.store, "latch", "mac", [P, F, F, F, P])
    await load_history(door.store, "latch", "windows", [P])
    await load_history(door.store, "hasp", "windows", [P])
    await door.store.refresh_tests(NOON)
    await load_names(door.store, ["bolt"], repository=GADGETS)
