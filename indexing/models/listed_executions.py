"""The executions of one test, and the query for a page of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.models.executions import Conclusion
from indexing.names import RepositoryName


class ExecutionKey(NamedTuple):
    """The sort key of executions; unique within one repository."""

    finished_at: datetime
    id: bytes


@dataclass(frozen=True, slots=True)
class ListedExecution:
    """One execution with its run, without the message and trace of its failure.

    Failures of the test with an equal `failure_id` are the same failure. It is `None` for
    executions that did not fail, or were stored by a release without these ids.
    """

    key: ExecutionKey
    conclusion: Conclusion
    needed_retries: bool
    duration: float | None
    branch: str
    commit: str
    pipeline_name: str
    job_name: str
    run_id: str
    attempt: int
    pull_number: int | None
    job_url: str | None
    failure_id: uuid.UUID | None

    @property
    def id(self) -> str:
        """The id as the API shows it."""
        return self.key.id.hex()


@dataclass(frozen=True, slots=True)
class ExecutionQuery:
    """The filters of a test's executions, of every branch; an empty tuple does not filter.

    `start` is included in the range, `end` is not. Order: newest first, by `ExecutionKey`.
    """

    repository: RepositoryName
    test_id: uuid.UUID
    start: datetime
    end: datetime
    branches: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
