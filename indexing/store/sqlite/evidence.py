"""Finds the newest evidence against a test, for quarantines that end."""

from __future__ import annotations

import sqlite3

from indexing.quarantine.decision import find_evidence
from indexing.store.sqlite.observations import StoredRuns
from indexing.store.sqlite.rollups import update_rollups
from indexing.store.sqlite.stored_tests import read_stored_tests
from indexing.timestamps import to_microseconds


def find_last_evidence(connection: sqlite3.Connection, test_id: bytes) -> int | None:
    """Return when the newest evidence against a test on the default branch finished.

    `None` if there is no evidence.
    """
    row = connection.execute(
        "SELECT t.id, s.recompute FROM tests t LEFT JOIN stale_tests s ON s.test = t.id"
        " WHERE t.test_id = ?",
        (test_id,),
    ).fetchone()
    if row is None:
        return None
    test, recompute = row
    (stored,) = read_stored_tests(connection, [test], [test] if recompute else [])
    rollups = update_rollups(connection, stored, StoredRuns(connection), recompute=bool(recompute))
    evidence = find_evidence(rollups.by_job.values())
    return None if evidence is None else to_microseconds(evidence.last_at)
