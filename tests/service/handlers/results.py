"""Loads results of the test `hinge`, each on a commit of its own."""

from __future__ import annotations

from typing import Any

from indexing.models.executions import Conclusion
from tests.builders import NOON, PULL, WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor


async def load(door: FrontDoor, count: int = 5) -> None:
    await door.store.ensure_repository(WIDGETS)
    for number in range(count):
        run = make_run(str(number), commit=f"c{number}", pull=PULL, job_url="https://ci.example/7")
        results = [("hinge", Conclusion.FAILED), ("lid", Conclusion.PASSED)]
        executions = make_executions(
            run, results, after(minutes=-number), duration=1.5, failure_message="stuck"
        )
        await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)


async def fail(door: FrontDoor, number: int, branch: str = "main", **about: Any) -> None:
    run = make_run(
        str(number), branch=branch, commit=f"c{number}", pull=PULL, job_url="https://ci.example/7"
    )
    executions = make_executions(
        run, [("hinge", Conclusion.FAILED)], after(minutes=number), **about
    )
    await door.store.write_results(WIDGETS, {run: executions})
    await door.store.refresh_tests(NOON)
