"""Executions, each of one test in one CI job, from a report or a span."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

# CI systems count attempts in small numbers; both stores can store this as an integer.
MAX_ATTEMPT: Final = 2**31 - 1

# The longest accepted duration of an execution in seconds: a century, more than any test takes.
MAX_DURATION: Final = 100 * 366 * 86_400

# The longest path that common systems can open. A longer one is dropped, because a cut path would
# name another file.
FILEPATH_MAX_LENGTH: Final = 4_096


class Conclusion(StrEnum):
    """How an execution ended; an error counts as failed."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class PullRequestUser(NamedTuple):
    """The author of a pull request."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The complete data of the pull request that an execution ran for."""

    id: int
    number: int
    title: str
    user_id: int
    user_login: str

    @property
    def user(self) -> PullRequestUser:
        """The author as a nested object, the form that the API shows."""
        return PullRequestUser(self.user_id, self.user_login)


@dataclass(frozen=True, slots=True)
class Run:
    """The facts of one CI job that all its executions share.

    `attempt` counts from 1. `pull_number` may be known without the rest of the pull request.
    `job_url` is the page of the job at the CI.
    """

    run_id: str
    attempt: int
    pipeline_name: str
    job_name: str
    branch: str
    commit: str
    pull_number: int | None = None
    pull: PullRequest | None = None
    job_url: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of one test.

    `id` is derived (`indexing.identifiers`) and has 16 bytes. `needed_retries` marks a pass that
    took more than one attempt according to the report. `duration` is in seconds. `failure_trace` is
    packed by `indexing.failures.traces`.
    """

    id: bytes
    test_name: str
    conclusion: Conclusion
    finished_at: datetime
    needed_retries: bool = False
    duration: float | None = None
    framework: str | None = None
    framework_version: str | None = None
    language: str | None = None
    filepath: str | None = None
    function_name: str | None = None
    failure_type: str | None = None
    failure_message: str | None = None
    failure_trace: bytes | None = None


def group_by_run(results: Iterable[tuple[Run, Execution]]) -> dict[Run, list[Execution]]:
    """Group executions by run and keep their order."""
    grouped: dict[Run, list[Execution]] = {}
    for run, execution in results:
        grouped.setdefault(run, []).append(execution)
    return grouped
