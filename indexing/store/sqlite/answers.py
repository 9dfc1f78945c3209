"""Compares the stored values that the API shows of a test before and after a refresh."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from indexing.models.changes import AnswerChanges
from indexing.models.tests import METADATA_FIELDS
from indexing.names import RepositoryName
from indexing.store.sqlite.metrics import METRICS_COLUMNS
from indexing.store.sqlite.tests import HEALTH_COLUMNS

_ROW: Final = ", ".join(METRICS_COLUMNS)
_DETAIL: Final = ", ".join(f"t.{column}" for column in (*HEALTH_COLUMNS, *METADATA_FIELDS))


@dataclass(frozen=True, slots=True)
class _Shown:
    """The stored values behind the detail, the search rows and the quarantines of one test."""

    repository: RepositoryName
    test_id: uuid.UUID
    detail: tuple[Any, ...]
    search: list[tuple[Any, ...]]
    quarantines: list[tuple[Any, ...]]


@contextmanager
def noted(
    connection: sqlite3.Connection, test: int, changes: list[AnswerChanges]
) -> Iterator[None]:
    """Append to `changes` how the work inside the context changes the test with that row id."""
    before = _read(connection, test)
    yield
    after = _read(connection, test)
    if after == before:
        return
    changes.append(
        AnswerChanges(
            after.repository,
            frozenset() if after.detail == before.detail else frozenset((after.test_id,)),
            search=after.search != before.search,
            quarantines=after.quarantines != before.quarantines,
        )
    )


def _read(connection: sqlite3.Connection, test: int) -> _Shown:
    owner, name, test_id, *detail = connection.execute(
        f"SELECT r.owner, r.name, t.test_id, {_DETAIL} FROM tests t"
        " JOIN repositories r ON r.id = t.repository_id WHERE t.id = ?",
        (test,),
    ).fetchone()
    return _Shown(
        RepositoryName(owner, name),
        uuid.UUID(bytes=test_id),
        tuple(detail),
        connection.execute(
            f"SELECT id, {_ROW} FROM identities WHERE test = ? ORDER BY id", (test,)
        ).fetchall(),
        connection.execute(
            "SELECT id, reason, is_recovered FROM quarantines"
            " WHERE test_id = ? AND removed_at IS NULL ORDER BY id",
            (test_id,),
        ).fetchall(),
    )
