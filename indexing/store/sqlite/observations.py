"""Reads executions as observations for the health rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

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

_UNMERGED: Final = (
    f"SELECT u.test, e.identity, e.branch, b.name, {_COLUMNS} FROM json_each(?) j"
    " CROSS JOIN unmerged u ON u.test = j.value CROSS JOIN executions e ON e.id = u.execution"
    " CROSS JOIN identities i ON i.id = e.identity AND i.test = u.test"
    " CROSS JOIN runs r ON r.id = e.run CROSS JOIN branches b ON b.id = e.branch"
)
# Makes a named tuple in half the time of a call of its class.
_new: Final = tuple.__new__


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


def read_on_branch(
    connection: sqlite3.Connection, test: int, branch: int | None
) -> list[Observation]:
    """Return the executions of a test on one branch."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM executions e {_JOINED}"
        " WHERE e.identity IN (SELECT id FROM identities WHERE test = ?) AND e.branch = ?",
        (test, branch),
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


def read_unmerged(
    connection: sqlite3.Connection, tests: Sequence[int]
) -> Iterator[tuple[int, OnBranch]]:
    """Yield the executions that are not in the roll-ups of these tests yet, each with its test."""
    given = orjson.dumps(tests).decode()
    metadata: dict[tuple[Any, ...], TestMetadata] = {}
    pulls: dict[str | None, PullRequest | None] = {}
    for test, identity, branch_row, branch, *columns in connection.execute(_UNMERGED, (given,)):
        yield test, OnBranch(_observe(columns, metadata, pulls), identity, branch_row, branch)


def _on_branch(row: tuple[Any, ...]) -> OnBranch:
    *columns, identity, branch_row, branch = row
    (observation,) = _observations_of([columns])
    return OnBranch(observation, identity, branch_row, branch)


def _observations_of(rows: Iterable[Sequence[Any]]) -> list[Observation]:
    """Return the observations; equal metadata and pull requests are shared to save memory."""
    metadata: dict[tuple[Any, ...], TestMetadata] = {}
    pulls: dict[str | None, PullRequest | None] = {}
    return [_observe(row, metadata, pulls) for row in rows]


def _observe(
    columns: Sequence[Any],
    metadata: dict[tuple[Any, ...], TestMetadata],
    pulls: dict[str | None, PullRequest | None],
) -> Observation:
    """Return an observation from the values of `_COLUMNS`, with metadata and pulls seen before."""
    pipeline, job, commit, conclusion, at, retries, broken, pull, duration, *fields = columns
    stated = metadata.get(key := tuple(fields))
    if stated is None:
        stated = metadata[key] = TestMetadata(*fields)
    if pull not in pulls:
        pulls[pull] = pull_of_text(pull)
    return _new(
        Observation,
        (
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
        ),
    )
