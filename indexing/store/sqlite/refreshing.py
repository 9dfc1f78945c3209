"""Refreshes stale tests in short transactions, one after the other.

A test whose stored data make the rules fail must not stop the loads of its repository, and
retention for all. It is computed from its executions; if that fails too, it stays stale.
"""

from __future__ import annotations

import logging
import sqlite3
import uuid
from datetime import datetime
from functools import partial
from typing import Final

from indexing.errors import DATA_ERRORS
from indexing.health.history import read_history
from indexing.models.changes import Changed
from indexing.names import RepositoryName
from indexing.store.interface import Steps
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.histories import forget_history
from indexing.store.sqlite.pace import TRANSACTION_SECONDS
from indexing.store.sqlite.refresh import RefreshError, refresh_some
from indexing.store.sqlite.stale_tests import mark_stale

_TESTS_A_STEP: Final = 200
# More of them are no accident of a few rows, and each costs some transactions and a traceback.
_MOST_LEFT_OUT: Final = 100

_log = logging.getLogger(__name__)


async def refresh_in_steps(
    connections: Connections,
    now: datetime,
    progress: Steps | None,
    repository: RepositoryName | None,
    changed: Changed | None,
) -> int:
    """Refresh the stale tests of one repository, or of all; return how many were refreshed.

    Raises:
        RefreshError: many tests cannot be judged.
    """
    total, more = 0, True
    # How many tests are refreshed one by one, because one of them fails.
    singly = 0
    marked: set[int] = set()
    left_out: set[int] = set()
    while more:
        step = partial(
            refresh_some,
            limit=1 if singly else _TESTS_A_STEP,
            now=now,
            repository=repository,
            seconds=TRANSACTION_SECONDS,
            noting=changed is not None,
            left_out=left_out,
        )
        singly = max(singly - 1, 0)
        try:
            done, more, changes = await connections.write(step)
        except RefreshError as error:
            if len(error.tests) > 1:
                singly = len(error.tests)
                continue
            (test,) = error.tests
            if test not in marked:
                marked.add(test)
                await connections.write(partial(_mark_damaged, test=test))
                continue
            if len(left_out) == _MOST_LEFT_OUT:
                raise
            left_out.add(test)
            fields = await connections.read(partial(_describe, test=test))
            _log.exception("a test cannot be judged and stays stale", extra=fields)
            continue
        total += done
        if changed is not None:
            for change in changes:
                changed(change)
        if progress is not None and done:
            progress(total)
    return total


def _mark_damaged(connection: sqlite3.Connection, test: int) -> None:
    """Mark a test to be computed from all of its executions, after a failure.

    If its history cannot be read, it is computed from the daily rows.
    """
    row = connection.execute(
        "SELECT history, lasting_verdicts FROM tests WHERE id = ?", (test,)
    ).fetchone()
    if row is None:
        # It was forgotten meanwhile.
        return
    history, lasting = row
    try:
        if history is not None:
            read_history(history, lasting)
    except DATA_ERRORS:
        forget_history(connection, test)
        connection.execute(
            "UPDATE tests SET history = NULL, lasting_verdicts = NULL WHERE id = ?", (test,)
        )
    mark_stale(connection, [test])


def _describe(connection: sqlite3.Connection, test: int) -> dict[str, str]:
    """Return the fields of a log line about a test."""
    row = connection.execute(
        "SELECT t.test_id, r.owner, r.name FROM tests t"
        " JOIN repositories r ON r.id = t.repository_id WHERE t.id = ?",
        (test,),
    ).fetchone()
    if row is None:
        return {}
    return {"test_id": str(uuid.UUID(bytes=row[0])), "repository": f"{row[1]}/{row[2]}"}
