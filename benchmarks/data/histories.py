"""A repository whose tests have any number of executions each, evenly over the window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from indexing.health.thresholds import WINDOW
from indexing.identifiers import derive_identity_id, derive_junit_execution_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.names import RepositoryName
from indexing.store.interface import Store

REPOSITORY: Final = RepositoryName("acme", "monorepo")
# The end of the last day of the history; reports that are timed arrive on the next one.
END: Final = datetime(2026, 11, 1, tzinfo=UTC)

_EXECUTIONS_A_CALL: Final = 20_000
# One result in this many fails.
_FAILING: Final = 97


async def fill(store: Store, tests: int, depth: int) -> None:
    """Store this many executions of each test."""
    apart = (WINDOW - timedelta(days=1)) / max(depth, 1)
    batch: dict[Run, list[Execution]] = {}
    for number in range(depth):
        run = run_of(str(number))
        batch[run] = executions_of(tests, run, END - apart * (depth - number), number)
        if len(batch) * tests >= _EXECUTIONS_A_CALL or number == depth - 1:
            await store.write_results(REPOSITORY, batch)
            batch = {}
    await store.refresh_tests(END)


def run_of(run_id: str) -> Run:
    return Run(run_id, 1, "ci", "unit", "main", commit=run_id.rjust(40, "0"))


def executions_of(tests: int, run: Run, at: datetime, number: int) -> list[Execution]:
    """Return one report of every test."""
    return [
        Execution(
            id=derive_junit_execution_id(
                derive_identity_id(REPOSITORY, name, run.pipeline_name, run.job_name),
                run.run_id,
                run.attempt,
                b"report",
                0,
            ),
            test_name=name,
            conclusion=Conclusion.FAILED
            if (test + 7 * number) % _FAILING == 0
            else Conclusion.PASSED,
            finished_at=at,
            duration=test / 1000,
        )
        for test, name in enumerate(f"tests/unit/test_{n}" for n in range(tests))
    ]
