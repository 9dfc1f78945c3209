"""Rows of quarantines. A repository has few, so branch patterns are matched row by row."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import datetime
from typing import Any, Final

from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import (
    MAX_QUARANTINES,
    MAX_QUARANTINES_PER_TEST,
    Actor,
    AddedQuarantine,
    ChangeAction,
    Quarantine,
    QuarantineKey,
    QuarantineQuery,
    QuarantineRequest,
    QuarantineSource,
    covers_branch,
)
from indexing.names import RepositoryName
from indexing.quarantine.changes import too_many_of_test, too_many_quarantines
from indexing.store.sqlite.auto_quarantine import end_expired
from indexing.store.sqlite.evidence import find_last_evidence
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.quarantine_changes import add_change
from indexing.store.sqlite.quarantine_rows import IN_FORCE, QUARANTINE_COLUMNS, quarantine_of
from indexing.store.sqlite.recoveries import judge_new_quarantine
from indexing.store.sqlite.repositories import ensure_repository, require_repository_id
from indexing.timestamps import microseconds_or_none, moment_or_none, to_microseconds

# Of one test and branch pattern; null is the pattern of every branch.
_IN_PLACE: Final = (
    "q.test_id = ? AND ifnull(q.branch, char(0)) = ifnull(?, char(0)) AND q.removed_at IS NULL"
)


def list_quarantines(
    connection: sqlite3.Connection,
    query: QuarantineQuery,
    anchor: Anchor[QuarantineKey],
    limit: int | None,
) -> Page[Quarantine]:
    filters = ""
    values: list[Any] = []
    if query.test_id is not None:
        filters += " AND q.test_id = ?"
        values.append(query.test_id.bytes)
    if query.source is not None:
        filters += " AND q.source = ?"
        values.append(query.source.value)

    def fetch(rows: Slice) -> list[Quarantine]:
        found: list[Quarantine] = []
        cursor = connection.execute(
            f"SELECT {QUARANTINE_COLUMNS} FROM quarantines q JOIN repositories r"
            " ON r.id = q.repository_id"
            f" WHERE r.key = ? AND {IN_FORCE}{filters} AND {rows.condition} {rows.order}",
            (query.repository.key, to_microseconds(query.now), *values, *rows.parameters),
        )
        for row in cursor:
            if query.branch is None or covers_branch(row[3], query.branch):
                found.append(quarantine_of(row))
                if len(found) == rows.limit:
                    break
        cursor.close()
        return found

    return read_page(
        fetch,
        ("q.created_at", "q.id"),
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.created_at), key.id.bytes),
        ascending=True,
        limit=limit,
    )


def get_quarantine(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    quarantine_id: uuid.UUID,
    now: datetime,
) -> Quarantine | None:
    row = connection.execute(
        f"SELECT {QUARANTINE_COLUMNS} FROM quarantines q JOIN repositories r"
        " ON r.id = q.repository_id"
        f" WHERE q.id = ? AND r.key = ? AND {IN_FORCE}",
        (quarantine_id.bytes, repository.key, to_microseconds(now)),
    ).fetchone()
    return None if row is None else quarantine_of(row)


def find_next_expiry(
    connection: sqlite3.Connection, repository: RepositoryName, now: datetime
) -> datetime | None:
    row = connection.execute(
        "SELECT min(q.expires_at) FROM quarantines q INDEXED BY quarantines_by_expiry"
        " JOIN repositories r ON r.id = q.repository_id"
        " WHERE r.key = ? AND q.removed_at IS NULL AND q.expires_at IS NOT NULL"
        " AND q.expires_at > ?",
        (repository.key, to_microseconds(now)),
    ).fetchone()
    return moment_or_none(row[0])


def add_quarantine(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    request: QuarantineRequest,
    now: datetime,
) -> AddedQuarantine:
    known = ensure_repository(connection, repository)
    test_id = derive_test_id(known.name, request.test_name).bytes
    began = to_microseconds(now)
    new_id = uuid.uuid4().bytes
    repository_id = require_repository_id(connection, repository)
    # An expired quarantine has ended: quarantining the test again creates a new record.
    end_expired(connection, test_id, began)
    if request.source is QuarantineSource.MANUAL:
        _check_room(connection, repository_id, (test_id, request.branch), began)
    expires_at = microseconds_or_none(request.expires_at)
    before = connection.execute(
        f"SELECT reason, owner, expires_at, source FROM quarantines q WHERE {_IN_PLACE}",
        (test_id, request.branch),
    ).fetchone()
    written = connection.execute(
        "INSERT INTO quarantines (id, repository_id, test_id, test_name, reason, branch, source,"
        " owner, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (test_id, ifnull(branch, char(0))) WHERE removed_at IS NULL DO UPDATE SET"
        " reason = excluded.reason, owner = excluded.owner, expires_at = excluded.expires_at,"
        " source = excluded.source, judged_until = NULL"
        # The rules must not change a person's decision.
        " WHERE NOT (source = 'manual' AND excluded.source = 'auto') RETURNING id",
        (
            new_id,
            repository_id,
            test_id,
            request.test_name,
            request.reason,
            request.branch,
            request.source.value,
            request.owner,
            began,
            expires_at,
        ),
    ).fetchone()
    requested = (request.reason, request.owner, expires_at, request.source.value)
    if written is not None and before != requested:
        action = ChangeAction.ADDED if written[0] == new_id else ChangeAction.UPDATED
        add_change(connection, written[0], action, began, request.actor)
    test = connection.execute("SELECT id FROM tests WHERE test_id = ?", (test_id,)).fetchone()
    if test is not None:
        judge_new_quarantine(connection, test[0], request.branch)
    row = connection.execute(
        f"SELECT {QUARANTINE_COLUMNS} FROM quarantines q WHERE {_IN_PLACE}",
        (test_id, request.branch),
    ).fetchone()
    return AddedQuarantine(quarantine_of(row), is_new=row[0] == new_id)


def remove_quarantine(
    connection: sqlite3.Connection,
    repository: RepositoryName,
    quarantine_id: uuid.UUID,
    now: datetime,
    actor: Actor,
) -> bool:
    found = get_quarantine(connection, repository, quarantine_id, now)
    if found is None:
        return False
    test_id = derive_test_id(repository, found.test_name).bytes
    add_change(connection, quarantine_id.bytes, ChangeAction.REMOVED, to_microseconds(now), actor)
    connection.execute(
        "UPDATE quarantines SET removed_at = ?, evidence_until = ? WHERE id = ?",
        (to_microseconds(now), find_last_evidence(connection, test_id), quarantine_id.bytes),
    )
    return True


def _check_room(
    connection: sqlite3.Connection, repository_id: int, place: tuple[bytes, str | None], now: int
) -> None:
    """Raise if people made too many quarantines, in the repository or of the test.

    One in that place is replaced, so it needs no room.
    """
    found = connection.execute(
        "SELECT 1 FROM quarantines WHERE test_id = ? AND branch IS ? AND removed_at IS NULL"
        " AND source = 'manual'",
        place,
    ).fetchone()
    if found is not None:
        return
    (count,) = connection.execute(
        "SELECT count(*) FROM quarantines q WHERE q.test_id = ? AND q.source = 'manual'"
        f" AND {IN_FORCE}",
        (place[0], now),
    ).fetchone()
    if count >= MAX_QUARANTINES_PER_TEST:
        raise too_many_of_test()
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM quarantines q WHERE q.repository_id = ?"
        f" AND q.source = 'manual' AND {IN_FORCE} LIMIT {MAX_QUARANTINES})",
        (repository_id, now),
    ).fetchone()
    if count == MAX_QUARANTINES:
        raise too_many_quarantines()
