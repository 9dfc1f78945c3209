"""Reads executions as observations for the health rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from indexing.health.observations import Observation
from indexing.health.rollups import Job
from indexing.models.executions import PullRequest
from indexing.models.tests import TestMetadata
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.columns import CONCLUSIONS, pull_of_text

_OF_RUN: Final = "r.commit_sha, r.infrastructure_failure, r.pull"
_OF_EXECUTION: Final = (
    "e.conclusion, e.finished_at, e.needed_retries, e.duration, e.framework, e.framework_version,"
    " e.language, e.filepath, e.function_name"
)
_COLUMNS: Final = f"i.pipeline_name, i.job_name, {_OF_RUN}, {_OF_EXECUTION}"
_JOINED: Final = "JOIN runs r ON r.id = e.run JOIN identities i ON i.id = e.identity"
_UNMERGED: Final = (
    f"SELECT u.test, e.identity, e.branch, b.name, {_COLUMNS} FROM json_each(?) j"
    " CROSS JOIN unmerged u ON u.test = j.value CROSS JOIN executions e ON e.id = u.execution"
    " CROSS JOIN identities i ON i.id = e.identity AND i.test = u.test"
    " CROSS JOIN runs r ON r.id = e.run CROSS JOIN branches b ON b.id = e.branch"
)
# Makes a named tuple in half the time of a call of its class.
_new: Final = tuple.__new__
# The most runs that are kept at a time; a test with more of them needs them all.
_RUNS_KEPT: Final = 50_000

# Commit, infrastructure failure as it is stored, and pull request.
_FactsOfRun = tuple[str, int, PullRequest | None]


class _Metadata(dict[tuple[Any, ...], TestMetadata]):
    """The metadata of the fields that executions state; equal ones are made once."""

    def __missing__(self, fields: tuple[Any, ...]) -> TestMetadata:
        self[fields] = made = TestMetadata(*fields)
        return made


class _Pulls(dict[str | None, PullRequest | None]):
    """The pull requests of the texts of runs; each is parsed once."""

    def __missing__(self, text: str | None) -> PullRequest | None:
        self[text] = parsed = pull_of_text(text)
        return parsed


class OnBranch(NamedTuple):
    """An observation with the row ids of its identity and branch, and the branch's name."""

    observation: Observation
    identity: int
    branch_row: int
    branch: str


class StoredRuns:
    """What observations need of runs, kept for the rest of a transaction.

    Most tests of a repository have the same runs, and to join them takes as long as all else.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: dict[int, _FactsOfRun] = {}

    def find(self, runs: set[int]) -> Mapping[int, _FactsOfRun]:
        """Return, at least for these runs, commit, infrastructure failure and pull request."""
        missing = runs.difference(self._kept)
        if len(self._kept) + len(missing) > _RUNS_KEPT:
            self._kept, missing = {}, runs
        if missing:
            pulls = _Pulls()
            for run, commit, infrastructure_failure, pull in self._connection.execute(
                f"SELECT r.id, {_OF_RUN} FROM runs r"
                " WHERE r.id IN (SELECT value FROM json_each(?))",
                (json_array(missing),),
            ):
                self._kept[run] = (commit, infrastructure_failure, pulls[pull])
        return self._kept


def read_identity(
    connection: sqlite3.Connection,
    identity: int,
    job: Job,
    branch: int | None,
    runs: StoredRuns,
) -> list[Observation]:
    """Return all executions of one identity on one branch; `job` is the identity's job.

    The cost depends on its executions on all branches, which are in one index.
    """
    if branch is None:
        return []
    rows = connection.execute(
        f"SELECT e.run, {_OF_EXECUTION} FROM executions e WHERE e.identity = ? AND e.branch = ?",
        (identity, branch),
    ).fetchall()
    of_run = runs.find({row[0] for row in rows})
    metadata = _Metadata()
    return [_observe(job, of_run[row[0]], row[1:], metadata) for row in rows]


def find_first_results(
    connection: sqlite3.Connection, test: int, branch: int | None
) -> dict[int, int]:
    """Return when the oldest execution of each identity of a test on one branch finished."""
    rows = connection.execute(
        "SELECT identity, min(finished_at) FROM executions"
        " WHERE identity IN (SELECT id FROM identities WHERE test = ?) AND branch = ?"
        " GROUP BY identity",
        (test, branch),
    )
    return dict(rows.fetchall())


def read_on_branch(
    connection: sqlite3.Connection, test: int, branch: int | None
) -> list[Observation]:
    """Return the executions of a test on one branch."""
    if branch is None:
        return []
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM executions e {_JOINED}"
        " WHERE e.identity IN (SELECT id FROM identities WHERE test = ?) AND e.branch = ?",
        (test, branch),
    )
    # Equal metadata and pull requests are shared to save memory.
    metadata, pulls = _Metadata(), _Pulls()
    return [_observe_joined(row, metadata, pulls) for row in rows]


def read_unmerged(
    connection: sqlite3.Connection, tests: Sequence[int]
) -> Iterator[tuple[int, OnBranch]]:
    """Yield the executions that are not in the roll-ups of these tests yet, each with its test."""
    metadata, pulls = _Metadata(), _Pulls()
    for test, identity, branch_row, branch, *columns in connection.execute(
        _UNMERGED, (json_array(tests),)
    ):
        observation = _observe_joined(columns, metadata, pulls)
        yield test, OnBranch(observation, identity, branch_row, branch)


def _observe_joined(columns: Sequence[Any], metadata: _Metadata, pulls: _Pulls) -> Observation:
    """Return an observation from the values of `_COLUMNS`."""
    pipeline, job, commit, infrastructure_failure, pull = columns[:5]
    return _observe(
        (pipeline, job), (commit, infrastructure_failure, pulls[pull]), columns[5:], metadata
    )


def _observe(job: Job, run: _FactsOfRun, seen: Sequence[Any], metadata: _Metadata) -> Observation:
    """Return an observation of a run from the values of `_OF_EXECUTION`."""
    conclusion, at, retries, duration = seen[:4]
    commit, infrastructure_failure, pull = run
    return _new(
        Observation,
        (
            *job,
            commit,
            CONCLUSIONS[conclusion],
            at,
            bool(retries),
            bool(infrastructure_failure),
            pull,
            metadata[tuple(seen[4:])],
            duration,
        ),
    )
