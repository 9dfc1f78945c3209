"""Which stored executions an operator wants to be rid of, and how many they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from indexing.accepted_times import AcceptedTimes
from indexing.names import RepositoryName


@dataclass(frozen=True, slots=True)
class ExecutionSelection:
    """Executions of which all holds that is given; `None` says nothing.

    Without a repository, those of all repositories. `outside` selects what is dated outside a range
    of time.
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
    """How many executions are selected, of how many tests, and when the first and last finished.

    `bounds` are the tests whose first or last failure or success lies outside the range that the
    selection names: those may be of executions that are gone.
    """

    executions: int
    tests: int
    oldest: datetime | None
    newest: datetime | None
    bounds: int = 0
