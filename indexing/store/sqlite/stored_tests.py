"""Reads what is stored of tests that are about to be refreshed: several tests in a few statements.

A statement for each test and table would take longer than the rules.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from indexing.health.rollups import Job
from indexing.models.tests import METADATA_FIELDS, TestHealth, TestMetadata, metadata_values
from indexing.names import RepositoryName
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.columns import text_of_pull
from indexing.store.sqlite.metrics import METRICS_COLUMNS
from indexing.store.sqlite.observations import OnBranch, read_unmerged
from indexing.store.sqlite.tests import HEALTH_COLUMNS
from indexing.timestamps import microseconds_or_none

# The columns of `tests` that the rules judge.
JUDGED_COLUMNS: Final = (*HEALTH_COLUMNS, *METADATA_FIELDS)

# A query for the row id of the default branch of the repository `r`.
BRANCH_OF_REPOSITORY: Final = (
    "SELECT b.id FROM branches b WHERE b.repository_id = r.id AND b.name = r.default_branch"
)
_GIVEN: Final = "FROM json_each(?) j CROSS JOIN tests t ON t.id = j.value"
_JUDGED: Final = ", ".join(f"t.{column}" for column in JUDGED_COLUMNS)
_METRICS: Final = ", ".join(f"i.{column}" for column in METRICS_COLUMNS)
_TESTS: Final = (
    "SELECT t.id, t.repository_id, t.test_id, t.test_name, t.history, t.lasting_verdicts,"
    f" {_JUDGED} {_GIVEN}"
)
_IDENTITIES: Final = (
    "SELECT i.test, i.id, i.identity_id, i.pipeline_name, i.job_name, r.branch, r.state,"
    f" {_METRICS} FROM json_each(?) j CROSS JOIN identities i ON i.test = j.value"
    " LEFT JOIN rollups r ON r.identity = i.id"
    # The others never had a result that counts, and there may be very many of them.
    " WHERE r.identity IS NOT NULL OR i.test IN (SELECT value FROM json_each(?))"
    " OR i.id IN (SELECT value FROM json_each(?)) ORDER BY i.id"
)
_QUARANTINES: Final = (
    f"SELECT t.id, q.id, q.branch, q.created_at, q.recovery {_GIVEN}"
    " CROSS JOIN quarantines q ON q.test_id = t.test_id AND q.removed_at IS NULL"
)
_REPOSITORY: Final = (
    f"SELECT r.owner, r.name, ({BRANCH_OF_REPOSITORY}), r.flaky_detection, r.auto_quarantine,"
    " r.ignore_broken_on_default_branch, r.quarantine_after,"
    " EXISTS (SELECT 1 FROM webhooks w WHERE w.repository_id = r.id)"
    " FROM repositories r WHERE r.id = ?"
)


class StoredRepository(NamedTuple):
    """The settings of a repository; `branch` is the row id of its default branch.

    `branch` is None if nothing ever ran there.
    """

    name: RepositoryName
    branch: int | None
    flaky_detection: bool
    auto_quarantine: bool
    ignore_broken: bool
    quarantine_after: int
    has_webhooks: bool


class StoredIdentity(NamedTuple):
    """An identity with its roll-up: the row id of its branch, and its text; None if it is new.

    `row` has the values of `METRICS_COLUMNS`.
    """

    identity: int
    identity_id: bytes
    job: Job
    branch: int | None
    state: bytes | None
    row: tuple[Any, ...]


class InForce(NamedTuple):
    """A quarantine in force, with the text of its recovery."""

    id: bytes
    branch: str | None
    created_at: int
    recovery: bytes | None


class StoredTest(NamedTuple):
    """What is stored of a test.

    `judged` has the values of `JUDGED_COLUMNS`. `history` and `lasting` are the texts of its
    history. `identities` are those with a roll-up or new executions. `unmerged` are the new
    executions. A test that is computed from all executions has all identities, and no `unmerged`.
    """

    test: int
    repository_id: int
    repository: StoredRepository
    test_id: bytes
    test_name: str
    history: bytes | None
    lasting: bytes | None
    judged: tuple[Any, ...]
    identities: list[StoredIdentity]
    unmerged: list[OnBranch]
    quarantines: list[InForce]


def judged_values(health: TestHealth, metadata: TestMetadata) -> tuple[Any, ...]:
    """Return the values of `JUDGED_COLUMNS`."""
    return (
        health.health_status.value,
        health.last_conclusion,
        health.failure_ratio,
        health.flakiness_ratio,
        health.success_ratio,
        microseconds_or_none(health.first_failure_at),
        health.first_failure_commit,
        text_of_pull(health.first_failure_pull) or None,
        microseconds_or_none(health.last_failure_at),
        microseconds_or_none(health.last_success_at),
        *metadata_values(metadata),
    )


# The values of a test that was never judged.
NOT_JUDGED: Final = judged_values(TestHealth(), TestMetadata())


def read_stored_tests(
    connection: sqlite3.Connection, tests: Sequence[int], computed: Collection[int] = ()
) -> list[StoredTest]:
    """Return the tests with these row ids; those in `computed` are computed from all executions."""
    given = (json_array(tests),)
    repositories: dict[int, StoredRepository] = {}
    found: dict[int, StoredTest] = {}
    for test, repository_id, test_id, name, history, lasting, *judged in connection.execute(
        _TESTS, given
    ):
        repository = repositories.get(repository_id)
        if repository is None:
            repository = repositories[repository_id] = _read_repository(connection, repository_id)
        found[test] = StoredTest(
            test,
            repository_id,
            repository,
            test_id,
            name,
            history,
            lasting,
            tuple(judged),
            [],
            [],
            [],
        )
    merged = [test for test in tests if test not in computed]
    new: set[int] = set()
    for test, seen in read_unmerged(connection, merged):
        found[test].unmerged.append(seen)
        new.add(seen.identity)
    for test, identity, identity_id, pipeline, job, branch, state, *row in connection.execute(
        _IDENTITIES, (*given, json_array(computed), json_array(new))
    ):
        found[test].identities.append(
            StoredIdentity(identity, identity_id, (pipeline, job), branch, state, tuple(row))
        )
    for test, *quarantine in connection.execute(_QUARANTINES, given):
        found[test].quarantines.append(InForce(*quarantine))
    return [found[test] for test in tests]


def find_default_branch(connection: sqlite3.Connection, test: int) -> int | None:
    """Return the row id of the default branch of a test's repository.

    `None` if nothing ever ran on that branch.
    """
    row = connection.execute(
        f"SELECT ({BRANCH_OF_REPOSITORY}) FROM tests t"
        " JOIN repositories r ON r.id = t.repository_id WHERE t.id = ?",
        (test,),
    ).fetchone()
    return None if row is None else row[0]


def read_in_force(connection: sqlite3.Connection, test: int) -> list[InForce]:
    """Return the quarantines of a test in force."""
    rows = connection.execute(_QUARANTINES, (f"[{test}]",))
    return [InForce(*quarantine) for _, *quarantine in rows]


def _read_repository(connection: sqlite3.Connection, repository_id: int) -> StoredRepository:
    (
        owner,
        name,
        branch,
        flaky_detection,
        auto_quarantine,
        ignore_broken,
        quarantine_after,
        has_webhooks,
    ) = connection.execute(_REPOSITORY, (repository_id,)).fetchone()
    return StoredRepository(
        RepositoryName(owner, name),
        branch,
        bool(flaky_detection),
        bool(auto_quarantine),
        bool(ignore_broken),
        quarantine_after,
        bool(has_webhooks),
    )
