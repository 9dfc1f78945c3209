"""Rows of tests: finds one, and reads its detail."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from typing import Any, Final

from indexing.models.tests import (
    METADATA_FIELDS,
    HealthStatus,
    TestDetail,
    TestHealth,
    TestMetadata,
)
from indexing.names import RepositoryName
from indexing.store.sqlite.columns import pull_of_text
from indexing.timestamps import moment_or_none

HEALTH_COLUMNS: Final = (
    "health_status",
    "last_conclusion",
    "failure_ratio",
    "flakiness_ratio",
    "success_ratio",
    "first_failure_at",
    "first_failure_commit",
    "first_failure_pull",
    "last_failure_at",
    "last_success_at",
)
_DETAIL: Final = (
    "SELECT r.owner, r.name, t.test_name, r.flaky_detection, "
    + ", ".join("t." + column for column in (*HEALTH_COLUMNS, *METADATA_FIELDS))
    + " FROM tests t JOIN repositories r ON r.id = t.repository_id"
    " WHERE t.test_id = ? AND r.key = ?"
)


def find_test(
    connection: sqlite3.Connection, repository: RepositoryName, test_id: uuid.UUID
) -> int | None:
    """Return the row id of a test; `None` if the repository has no such test."""
    row = connection.execute(
        "SELECT t.id FROM tests t JOIN repositories r ON r.id = t.repository_id"
        " WHERE t.test_id = ? AND r.key = ?",
        (test_id.bytes, repository.key),
    ).fetchone()
    return None if row is None else row[0]


def get_test(
    connection: sqlite3.Connection, repository: RepositoryName, test_id: uuid.UUID
) -> TestDetail | None:
    row = connection.execute(_DETAIL, (test_id.bytes, repository.key)).fetchone()
    if row is None:
        return None
    owner, name, test_name, flaky_detection, *rest = row
    health, metadata = rest[: len(HEALTH_COLUMNS)], rest[len(HEALTH_COLUMNS) :]
    return TestDetail(
        repository=RepositoryName(owner, name),
        test_name=test_name,
        test_id=test_id,
        flaky_detection_enabled=bool(flaky_detection),
        health=health_of(health),
        metadata=TestMetadata(*metadata),
    )


def health_of(columns: Sequence[Any]) -> TestHealth:
    """Return the health from the values of `HEALTH_COLUMNS`."""
    status, last, failure, flakiness, success, first_at, commit, pull, failed_at, passed_at = (
        columns
    )
    return TestHealth(
        health_status=HealthStatus(status),
        last_conclusion=last,
        failure_ratio=failure,
        flakiness_ratio=flakiness,
        success_ratio=success,
        first_failure_at=moment_or_none(first_at),
        first_failure_commit=commit,
        first_failure_pull=pull_of_text(pull),
        last_failure_at=moment_or_none(failed_at),
        last_success_at=moment_or_none(passed_at),
    )
