"""The runs of CI jobs with stored results, and the query for a page of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.models.executions import Run
from indexing.names import RepositoryName


class RunKey(NamedTuple):
    """The sort key of runs, by the newest execution; unique within one repository."""

    finished_at: datetime
    id: bytes


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run of one job with the number of its results; `run` is without the pull request."""

    key: RunKey
    run: Run
    passed: int
    failed: int
    skipped: int
    is_infrastructure_failure: bool


@dataclass(frozen=True, slots=True)
class RunQuery:
    """The filters of the runs; an empty tuple does not filter. Order: newest first."""

    repository: RepositoryName
    commits: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    pull_numbers: tuple[int, ...] = ()
    pipelines: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
