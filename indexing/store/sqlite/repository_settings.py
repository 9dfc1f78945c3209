"""Changes a repository's settings, and what depends on them: tests, quarantines, the event log."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from indexing.models.repositories import Repository, RepositoryChange
from indexing.names import RepositoryName
from indexing.quarantine.configuration import describe_change
from indexing.store.sqlite.events import write_events
from indexing.store.sqlite.repositories import ensure_repository, require_repository_id
from indexing.store.sqlite.stale_tests import mark_found


def set_repository(
    connection: sqlite3.Connection, name: RepositoryName, change: RepositoryChange, now: datetime
) -> Repository:
    before = ensure_repository(connection, name)
    repository_id = require_repository_id(connection, name)
    connection.execute(
        "UPDATE repositories SET default_branch = coalesce(?, default_branch),"
        " flaky_detection = coalesce(?, flaky_detection),"
        " auto_quarantine = coalesce(?, auto_quarantine),"
        " ignore_broken_on_default_branch = coalesce(?, ignore_broken_on_default_branch),"
        " quarantine_after = coalesce(?, quarantine_after)"
        " WHERE id = ?",
        (
            change.default_branch,
            change.flaky_detection,
            change.auto_quarantine,
            change.ignore_broken_on_default_branch,
            change.quarantine_after,
            repository_id,
        ),
    )
    after = ensure_repository(connection, name)
    if after.default_branch != before.default_branch:
        _name_branch(connection, repository_id, before.default_branch)
        # These columns describe the default branch; a refresh must not merge values of the old one.
        connection.execute(
            "UPDATE tests SET first_failure_at = NULL, first_failure_commit = NULL,"
            " first_failure_pull = NULL, last_failure_at = NULL, last_success_at = NULL"
            " WHERE repository_id = ?",
            (repository_id,),
        )
    if after.differs_beside_branch(before):
        # A decision made under other settings becomes final: these settings cannot check it again.
        # Another default branch alone makes none final: if the new branch has no evidence against a
        # test, its quarantine is taken back.
        connection.execute(
            "UPDATE quarantines SET judged_until = NULL"
            " WHERE repository_id = ? AND judged_until IS NOT NULL",
            (repository_id,),
        )
    if after != before:
        mark_found(connection, "SELECT id FROM tests WHERE repository_id = ?", (repository_id,))
    event = describe_change(before, after, now)
    if event is not None:
        write_events(connection, [event])
    return after


def _name_branch(connection: sqlite3.Connection, repository_id: int, branch: str) -> None:
    """Store the default branch that ends in roll-ups without one, so that their history ends too.

    Earlier releases left it out of roll-ups whose executions retention had removed.
    """
    connection.execute(
        "UPDATE rollups SET branch ="
        " (SELECT id FROM branches WHERE repository_id = ?1 AND name = ?2)"
        " WHERE branch IS NULL"
        " AND identity IN (SELECT id FROM identities WHERE repository_id = ?1)",
        (repository_id, branch),
    )
