"""Reads executions as observations for the health rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from indexing.health.observations import Observation
from indexing.health.rules import Job
from indexing.models.executions import PullRequest
from indexing.models.tests import TestMetadata
from indexing.store.sqlite.columns import CONCLUSIONS, pull_of_text

_OF_EXECUTION: Final = (
    "r.commit_sha, e.conclusion, e.finished_at, e.needed_retries,"
    " r.infrastructure_failure, r.pull, e.duration, e.framework, e.framework_version, e.language,"
    " e.filepath, e.function_name"
)
_COLUMNS: Final = f"i.pipeline_name, i.job_name, {_OF_EXECUTION}"
_JOINED: Final = "JOIN runs r ON r.id = e.run JOIN identities i ON i.id = e.identity"
_WITH_BRANCH: Final = (
    f"SELECT {_COLUMNS}, e.identity, e.branch, b.name FROM executions e {_JOINED}"
    " JOIN branches b ON b.id = e.branch"
)


class OnBranch(NamedTuple):
    """An observation with the row ids of its identity and branch, and the branch's name."""

    observation: Observation
    identity: int
    branch_row: int
    branch: str


def read_identity(
    connection: sqlite3.Connection, identity: int, job: Job, branch: int | None
) -> list[Observation]:
    """Return all executions of one identity on one branch; `job` is the identity's job."""
    rows = connection.execute(
        f"SELECT ?, ?, {_OF_EXECUTION} FROM executions e JOIN runs r ON r.id = e.run"
        " WHERE e.identity = ? AND e.branch = ?",
        (*job, identity, branch),
    )
    return _observations_of(rows)


def read_until(
    connection: sqlite3.Connection, test: int, branch: int | None, until: int
) -> list[Observation]:
    """Return the executions of a test on one branch that finished at `until` or before."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM executions e {_JOINED}"
        " WHERE e.identity IN (SELECT id FROM identities WHERE test = ?) AND e.branch = ?"
        " AND e.finished_at <= ?",
        (test, branch, until),
    )
    return _observations_of(rows)


def read_since(connection: sqlite3.Connection, test: int, since: int) -> Iterator[OnBranch]:
    """Yield the executions of a test on every branch that finished at `since` or later."""
    rows = connection.execute(
        f"{_WITH_BRANCH} WHERE e.identity IN (SELECT id FROM identities WHERE test = ?)"
        " AND e.finished_at >= ?",
        (test, since),
    )
    return map(_on_branch, rows)


def read_unmerged(connection: sqlite3.Connection, test: int) -> list[OnBranch]:
    """Return the executions of a test that are not in its roll-ups yet."""
    rows = connection.execute(
        f"{_WITH_BRANCH} WHERE e.id IN (SELECT execution FROM unmerged WHERE test = ?1)"
        " AND i.test = ?1",
        (test,),
    )
    return [_on_branch(row) for row in rows]


def _on_branch(row: tuple[Any, ...]) -> OnBranch:
    *columns, identity, branch_row, branch = row
    (observation,) = _observations_of([columns])
    return OnBranch(observation, identity, branch_row, branch)


def _observations_of(rows: Iterable[Sequence[Any]]) -> list[Observation]:
    """Return the observations; equal metadata and pull requests are shared to save memory."""
    found: list[Observation] = []
    metadata: dict[tuple[Any, ...], TestMetadata] = {}
    pulls: dict[str | None, PullRequest | None] = {}
    for pipeline, job, commit, conclusion, at, retries, broken, pull, duration, *fields in rows:
        stated = metadata.get(key := tuple(fields))
        if stated is None:
            stated = metadata[key] = TestMetadata(*fields)
        if pull not in pulls:
            pulls[pull] = pull_of_text(pull)
        found.append(
            Observation(
                pipeline,
                job,
                commit,
                CONCLUSIONS[conclusion],
                at,
                bool(retries),
                bool(broken),
                pulls[pull],
                stated,
                duration,
            )
        )
    return found
