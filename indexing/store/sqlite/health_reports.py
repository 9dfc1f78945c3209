"""Reads the stored roll-ups of one test, and reports why it is healthy, flaky or broken."""

from __future__ import annotations

import sqlite3
import uuid

from indexing.health.reports import report_health
from indexing.health.rollup_text import read_rollup
from indexing.models.health_reports import HealthReport
from indexing.names import RepositoryName
from indexing.store.sqlite.stored_tests import find_default_branch
from indexing.store.sqlite.tests import find_test


def get_health(
    connection: sqlite3.Connection, repository: RepositoryName, test_id: uuid.UUID
) -> HealthReport | None:
    test = find_test(connection, repository, test_id)
    if test is None:
        return None
    (flaky_detection,) = connection.execute(
        "SELECT flaky_detection FROM repositories WHERE key = ?", (repository.key,)
    ).fetchone()
    rows = connection.execute(
        "SELECT i.pipeline_name, i.job_name, r.state FROM identities i"
        " JOIN rollups r ON r.identity = i.id WHERE i.test = ? AND r.branch = ?",
        (test, find_default_branch(connection, test)),
    )
    found = {(pipeline, job): read_rollup(state) for pipeline, job, state in rows}
    rollups = {job: rollup for job, rollup in found.items() if rollup is not None}
    return report_health(rollups, flaky_detection=bool(flaky_detection))
