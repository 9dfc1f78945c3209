"""The derived data in the file of a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DERIVED = {
    "tests": "SELECT test_name, health_status, last_conclusion, failure_ratio, flakiness_ratio,"
    " success_ratio, first_failure_at, first_failure_commit, last_failure_at, last_success_at,"
    " framework FROM tests ORDER BY 1",
    "identities": "SELECT test_name, job_name, executions_count FROM identities ORDER BY 1, 2",
    # An empty roll-up names the branch that was the default when it was stored, if any ran there.
    "rollups": "SELECT i.test_name, i.job_name, CASE r.state WHEN CAST('[2]' AS BLOB) THEN NULL"
    " ELSE b.name END, r.state FROM rollups r"
    " JOIN identities i ON i.id = r.identity LEFT JOIN branches b ON b.id = r.branch"
    " ORDER BY 1, 2",
    "days": "SELECT i.test_name, i.job_name, d.* FROM daily_rollups d"
    " JOIN identities i ON i.id = d.identity ORDER BY 1, 2, d.day",
    "history": "SELECT test_name, history, lasting_verdicts FROM tests ORDER BY 1",
    "changes": "SELECT t.test_name, i.job_name, c.day, c.at, c.previous, c.health"
    " FROM health_changes c JOIN tests t ON t.id = c.test LEFT JOIN identities i"
    " ON i.id = c.identity ORDER BY 1, 2, 3",
    "flaky days": "SELECT i.test_name, i.job_name, f.day, f.verdicts FROM flaky_days f"
    " JOIN identities i ON i.id = f.identity ORDER BY 1, 2, 3",
    "run days": "SELECT r.run_id, r.job_name, r.commit_sha, b.name, d.day, d.passed, d.failed,"
    " d.skipped, d.durations, d.total_duration FROM run_days d JOIN runs r ON r.id = d.run"
    " JOIN branches b ON b.id = d.branch ORDER BY 1, 2, 3, 4, 5",
    "past days": "SELECT * FROM past_days ORDER BY 1, 2, 3, 4, 5",
    "quarantines": "SELECT test_name, reason, branch, source, removed_at IS NULL, is_recovered,"
    " recovery FROM quarantines ORDER BY 1, 2, 3, 4, 5, recovery",
}

ROW_IDS = {"days": 2}


def dump(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All derived data, without row ids."""
    with closing(sqlite3.connect(folder / "mergewatch.db")) as connection:
        found = {name: connection.execute(query).fetchall() for name, query in DERIVED.items()}
    for name, column in ROW_IDS.items():
        found[name] = [(*row[:column], *row[column + 1 :]) for row in found[name]]
    return found
