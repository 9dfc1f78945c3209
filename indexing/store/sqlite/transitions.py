"""Lists transitions of health, newest first, each with the execution that shows the new health."""

from __future__ import annotations

import sqlite3
import uuid
from dataclasses import replace
from typing import Any, Final

from indexing.health.window import day_number
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor, Page
from indexing.models.tests import HealthStatus
from indexing.models.transitions import (
    MAX_OF_TEST,
    SHOWS_A_FAILURE,
    TestTransitions,
    Transition,
    TransitionKey,
    TransitionQuery,
    shown_as,
    stored_states,
)
from indexing.names import RepositoryName
from indexing.store.sqlite.clauses import any_of
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS, NO_PULL_NUMBER
from indexing.store.sqlite.keyset import Slice, read_page
from indexing.store.sqlite.stored_tests import find_default_branch
from indexing.store.sqlite.tests import find_test
from indexing.timestamps import (
    DAY_MICROSECONDS,
    EARLIEST,
    LATEST,
    from_microseconds,
    moment_or_none,
    to_microseconds,
)

_ORDER: Final = ("c.at", "c.identity_id")
_FAILED: Final = CONCLUSION_NUMBERS[Conclusion.FAILED]
_COLUMNS: Final = (
    "c.at, c.identity_id, t.test_id, t.test_name, i.pipeline_name, i.job_name, c.previous,"
    " c.health, c.identity, c.test"
)


def list_transitions(
    connection: sqlite3.Connection,
    query: TransitionQuery,
    anchor: Anchor[TransitionKey],
    limit: int,
) -> Page[Transition]:
    """Read one page from the index of the repository's transitions.

    With a test in the query, all transitions of that test are read and sorted instead.
    """
    found = connection.execute(
        "SELECT id, flaky_detection FROM repositories WHERE key = ?", (query.repository.key,)
    ).fetchone()
    if found is None:
        return Page((), has_previous=False, has_next=False)
    repository_id, flaky_detection = found[0], bool(found[1])
    states = stored_states(query.healths, flaky_detection=flaky_detection)
    where, values = any_of({"c.health": [state.value for state in states]})
    if not flaky_detection:
        one = "IN ('flaky', 'healthy')"
        where += f" AND NOT (c.previous {one} AND c.health {one})"
    index = "INDEXED BY health_transitions"
    if query.test_id is not None:
        index = ""
        where += " AND c.test = (SELECT id FROM tests WHERE test_id = ?)"
        values.append(query.test_id.bytes)

    def fetch(rows: Slice) -> list[Transition]:
        if not states:
            return []
        cursor = connection.execute(
            f"SELECT {_COLUMNS} FROM health_changes c {index} JOIN tests t ON t.id = c.test"
            " JOIN identities i ON i.id = c.identity WHERE c.repository_id = ?"
            " AND c.identity > 0 AND c.previous IS NOT NULL AND c.at >= ? AND c.at < ?"
            f"{where} AND {rows.condition} {rows.limited_order}",
            (
                repository_id,
                to_microseconds(query.start),
                to_microseconds(query.end),
                *values,
                *rows.parameters,
            ),
        )
        return [
            _read(connection, row, flaky_detection=flaky_detection) for row in cursor.fetchall()
        ]

    return read_page(
        fetch,
        _ORDER,
        anchor=anchor,
        key_of=lambda key: (to_microseconds(key.at), key.id),
        ascending=False,
        limit=limit,
    )


def list_of_test(
    connection: sqlite3.Connection, repository: RepositoryName, test_id: uuid.UUID
) -> TestTransitions | None:
    test = find_test(connection, repository, test_id)
    if test is None:
        return None
    query = TransitionQuery(repository, EARLIEST, LATEST, test_id=test_id)
    page = list_transitions(connection, query, Anchor(), MAX_OF_TEST)
    (first,) = connection.execute(
        "SELECT min(at) FROM health_changes WHERE test = ? AND identity = 0", (test,)
    ).fetchone()
    return TestTransitions(page.rows, moment_or_none(first))


def _read(
    connection: sqlite3.Connection, row: tuple[Any, ...], *, flaky_detection: bool
) -> Transition:
    at, identity_id, test_id, name, pipeline, job, previous, health, identity, test = row
    transition = Transition(
        TransitionKey(from_microseconds(at), identity_id),
        uuid.UUID(bytes=test_id),
        name,
        pipeline,
        job,
        shown_as(HealthStatus(previous), flaky_detection),
        shown_as(HealthStatus(health), flaky_detection),
    )
    prefers_failures = transition.health in SHOWS_A_FAILURE
    failed_first = f"e.conclusion = {_FAILED} DESC, " if prefers_failures else ""
    shown = connection.execute(
        "SELECT e.conclusion, e.failure_type, r.commit_sha, r.pull_number FROM executions e"
        " INDEXED BY executions_of_identity JOIN runs r ON r.id = e.run"
        " WHERE e.identity = ? AND e.branch = ? AND e.finished_at BETWEEN ? AND ?"
        f" ORDER BY {failed_first}e.finished_at DESC, e.execution_id DESC LIMIT 1",
        (
            identity,
            find_default_branch(connection, test),
            day_number(at) * DAY_MICROSECONDS,
            at,
        ),
    ).fetchone()
    if shown is None:
        return transition
    conclusion, failure_type, commit, number = shown
    return replace(
        transition,
        exception_type=failure_type if conclusion == _FAILED else None,
        commit=commit,
        pull_number=None if number == NO_PULL_NUMBER else number,
    )
