"""Counts tests by health, and tests that wait for a refresh."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName


def count_tests(
    connection: sqlite3.Connection, repository: RepositoryName
) -> Mapping[HealthStatus, int]:
    rows = connection.execute(
        "SELECT t.health_status, count(*) FROM tests t"
        " JOIN repositories r ON r.id = t.repository_id WHERE r.key = ? GROUP BY t.health_status",
        (repository.key,),
    )
    return dict.fromkeys(HealthStatus, 0) | {HealthStatus(health): count for health, count in rows}


def count_stale_tests(connection: sqlite3.Connection) -> int:
    count: int = connection.execute("SELECT count(*) FROM stale_tests").fetchone()[0]
    return count
