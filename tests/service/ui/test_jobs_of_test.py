"""The page of a test that runs in many jobs."""

from __future__ import annotations

import re

import pytest

from indexing.health.reports import SHOWN_JOBS
from indexing.models.executions import Conclusion
from tests.builders import NOON, WIDGETS, after, load_history, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import BROKEN, page_of
from tests.service.ui.signed_in import read, sign_in


@pytest.mark.parametrize(
    ("broken", "healthy", "shown"),
    [
        (3, SHOWN_JOBS, "and 2 more"),
        (SHOWN_JOBS, 0, f"and {SHOWN_JOBS - 1} more"),
        # The report on the health of a test names the worst 200 of its jobs.
        (SHOWN_JOBS + 50, 0, f"and at least {SHOWN_JOBS - 1} more"),
    ],
)
async def test_the_number_of_jobs_that_are_broken_is_not_made_up(
    door: FrontDoor, broken: int, healthy: int, shown: str
) -> None:
    await door.store.ensure_repository(WIDGETS)
    results = {}
    for number in range(broken + healthy):
        run = make_run(f"{number}", job=f"job {number}")
        conclusion = Conclusion.FAILED if number < broken else Conclusion.PASSED
        results[run] = make_executions(run, [(BROKEN, conclusion)], after(hours=-1))
    await door.store.write_results(WIDGETS, results)
    await door.store.refresh_tests(NOON)
    page = await read(await sign_in(door), page_of(BROKEN))
    assert shown in re.sub(r"<[^>]*>", "", page)


@pytest.mark.parametrize("jobs", [12, 13])
async def test_the_history_says_if_older_changes_are_left_out(door: FrontDoor, jobs: int) -> None:
    became_broken = [*[Conclusion.PASSED] * 2, *[Conclusion.FAILED] * 3]
    for number in range(jobs):
        await load_history(door.store, BROKEN, f"job {number}", became_broken)
    await door.store.refresh_tests(NOON)
    page = await read(await sign_in(door), page_of(BROKEN))
    assert page.count("became</span>") == 12
    assert ("older changes are not shown" in page) == (jobs > 12)
