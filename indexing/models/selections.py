"""Stored executions that an operator wants to remove, and their number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from indexing.accepted_times import AcceptedTimes
from indexing.names import RepositoryName


@dataclass(frozen=True, slots=True)
class ExecutionSelection:
    """Selects executions that match all filters; `None` does not filter.

    Without a repository, it selects executions of all repositories. `outside` selects executions
    dated outside a time range.
    """

    repository: RepositoryName | None = None
    run_id: str | None = None
    attempt: int | None = None
    pipeline_name: str | None = None
    job_name: str | None = None
    test_name: str | None = None
    outside: AcceptedTimes | None = None


@dataclass(frozen=True, slots=True)
class SelectionExtent:
    """The number of selected executions and tests, and when the first and last finished.

    `bounds` is the number of first or last failures or successes of tests that lie outside the
    selection's time range; their executions may no longer be stored.
    """

    executions: int
    tests: int
    oldest: datetime | None
    newest: datetime | None
    bounds: int = 0
