"""Recomputes the derived data of a test from its executions and stores it.

It reads all executions of the window. Of older ones only the oldest and newest failure and the
newest success count, and each of those is one index look-up. Where the verdict before the window
matters too, it reads the older ones of that job.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import datetime
from functools import partial
from typing import Any, Final

from indexing.globs import matches
from indexing.health.observations import Judgement, Observation
from indexing.health.preceding import find_open_jobs
from indexing.health.rules import is_recovered, judge
from indexing.health.window import window_start
from indexing.models.changes import AnswerChanges
from indexing.models.executions import Conclusion
from indexing.models.tests import METADATA_FIELDS, TestMetadata
from indexing.names import RepositoryName
from indexing.quarantine.decision import Standing, find_evidence
from indexing.quarantine.ruling import Conditions
from indexing.store.sqlite.answers import noted
from indexing.store.sqlite.auto_quarantine import apply_rules
from indexing.store.sqlite.columns import (
    CONCLUSION_NUMBERS,
    CONCLUSIONS,
    pull_of_text,
    text_of_pull,
)
from indexing.store.sqlite.tests import HEALTH_COLUMNS, health_of
from indexing.timestamps import from_microseconds, microseconds_or_none, to_microseconds

_PASSED: Final = CONCLUSION_NUMBERS[Conclusion.PASSED]
_FAILED: Final = CONCLUSION_NUMBERS[Conclusion.FAILED]
_NUMBERS: Final = ", ".join(str(number) for number in CONCLUSIONS)

_OBSERVATION: Final = (
    "i.pipeline_name, i.job_name, r.commit_sha, e.conclusion, e.finished_at, e.needed_retries,"
    " r.infrastructure_failure, r.pull, e.framework, e.framework_version, e.language,"
    " e.filepath, e.function_name"
)


# Later than every moment that SQLite can hold.
_FOREVER: Final = 2**63 - 1

# For each identity of a test: pipeline, job, and when its newest execution finished, if any did.
_Newest = dict[int, tuple[str, str, int | None]]


def refresh_some(
    connection: sqlite3.Connection,
    limit: int,
    now: datetime,
    repository: RepositoryName | None,
    seconds: float,
) -> tuple[int, bool, list[AnswerChanges]]:
    """Refresh the first `limit` stale tests, of one repository or of all.

    Returns the number of tests, whether more may be stale, and what changed in answers. Starts no
    further test once the time limit in seconds is over.
    """
    changes: list[AnswerChanges] = []
    deadline = time.monotonic() + seconds
    within = "" if repository is None else " WHERE r.key = ?"
    stale = [
        row[0]
        for row in connection.execute(
            "SELECT s.test FROM stale_tests s JOIN tests t ON t.id = s.test"
            f" JOIN repositories r ON r.id = t.repository_id{within} ORDER BY s.test LIMIT ?",
            (*([] if repository is None else [repository.key]), limit),
        )
    ]
    for done, test in enumerate(stale, start=1):
        with noted(connection, test, changes):
            _refresh(connection, test, to_microseconds(now))
        connection.execute("DELETE FROM stale_tests WHERE test = ?", (test,))
        if time.monotonic() > deadline:
            return done, True, changes
    return len(stale), len(stale) == limit, changes


def find_last_evidence(connection: sqlite3.Connection, test_id: bytes) -> int | None:
    """Return when the newest evidence against a test on the default branch finished, if any."""
    row = connection.execute("SELECT id FROM tests WHERE test_id = ?", (test_id,)).fetchone()
    if row is None:
        return None
    branch = _default_branch_of(connection, row[0])
    newest = _newest_by_identity(connection, row[0], branch)
    evidence = find_evidence(_read_observations(connection, row[0], branch, newest))
    return None if evidence is None else to_microseconds(evidence.last_at)


def _refresh(connection: sqlite3.Connection, test: int, now: int) -> None:
    row = connection.execute(
        f"SELECT r.flaky_detection, r.auto_quarantine, r.ignore_broken_on_default_branch,"
        f" r.quarantine_after, {', '.join('t.' + column for column in HEALTH_COLUMNS)}"
        " FROM tests t JOIN repositories r ON r.id = t.repository_id WHERE t.id = ?",
        (test,),
    ).fetchone()
    flaky_detection, auto_quarantine, ignore_broken, quarantine_after, *health = row
    branch = _default_branch_of(connection, test)
    newest = _newest_by_identity(connection, test, branch)
    observations = _read_observations(connection, test, branch, newest)
    judge_test = partial(judge, flaky_detection=bool(flaky_detection), before=health_of(health))
    judgement = judge_test(observations)
    _store_judgement(connection, test, judgement)
    for identity, (pipeline_name, job_name, moment) in newest.items():
        count = (
            None
            if moment is None
            else judgement.executions_counts.get((pipeline_name, job_name), 0)
        )
        # Four indexes contain the count: update them only if it changed.
        connection.execute(
            "UPDATE identities SET executions_count = ? WHERE id = ? AND executions_count IS NOT ?",
            (count, identity, count),
        )
    if auto_quarantine:
        newest_of_all = _newest_of(newest)

        def standing_until(until: int) -> Standing:
            if newest_of_all is None or newest_of_all <= until:
                return Standing.of(judgement, observations)
            older = _newest_by_identity(connection, test, branch, until)
            seen = _read_observations(connection, test, branch, older, until)
            return Standing.of(judge_test(seen), seen)

        apply_rules(
            connection,
            test,
            now=now,
            newest=newest_of_all,
            standing_until=standing_until,
            conditions=Conditions(bool(ignore_broken), quarantine_after),
        )
    refresh_quarantines(connection, test)


def _default_branch_of(connection: sqlite3.Connection, test: int) -> int | None:
    """Return the row of the default branch of a test's repository, if anything ever ran on it."""
    row = connection.execute(
        "SELECT b.id FROM tests t JOIN repositories r ON r.id = t.repository_id"
        " JOIN branches b ON b.repository_id = r.id AND b.name = r.default_branch WHERE t.id = ?",
        (test,),
    ).fetchone()
    return None if row is None else row[0]


def _newest_by_identity(
    connection: sqlite3.Connection, test: int, branch: int | None, until: int = _FOREVER
) -> _Newest:
    """All identities, by their executions on the branch that had finished by `until`."""
    newest_of_each = ", ".join(
        "(SELECT max(finished_at) FROM executions WHERE identity = i.id AND branch = ?1"
        f" AND conclusion = {number} AND finished_at <= ?2)"
        for number in CONCLUSIONS
    )
    rows = connection.execute(
        f"SELECT i.id, i.pipeline_name, i.job_name, {newest_of_each}"
        " FROM identities i WHERE i.test = ?3",
        (branch, until, test),
    )
    return {
        identity: (pipeline, job, max((m for m in moments if m is not None), default=None))
        for identity, pipeline, job, *moments in rows
    }


def _newest_of(newest: _Newest) -> int | None:
    return max((moment for _, _, moment in newest.values() if moment is not None), default=None)


def _read_observations(
    connection: sqlite3.Connection,
    test: int,
    branch: int | None,
    newest: _Newest,
    until: int = _FOREVER,
) -> list[Observation]:
    end = _newest_of(newest)
    if end is None:
        return []
    start = window_start(end)
    source = (
        f"SELECT {_OBSERVATION} FROM executions e JOIN runs r ON r.id = e.run"
        " JOIN identities i ON i.id = e.identity"
    )
    observations = [
        _observation_of(row)
        for row in connection.execute(
            f"{source} WHERE e.identity IN (SELECT id FROM identities WHERE test = ?)"
            f" AND e.branch = ? AND e.conclusion IN ({_NUMBERS})"
            " AND e.finished_at BETWEEN ? AND ?",
            (test, branch, start, until),
        )
    ]
    # Take all executions at the extreme moment: the rules decide which one counts.
    for identity in newest:
        for conclusion, extreme in ((_FAILED, "min"), (_FAILED, "max"), (_PASSED, "max")):
            observations += (
                _observation_of(row)
                for row in connection.execute(
                    f"{source} WHERE e.identity = ?1 AND e.branch = ?2 AND e.conclusion = ?3"
                    f" AND e.finished_at = (SELECT {extreme}(finished_at) FROM executions"
                    " WHERE identity = ?1 AND branch = ?2 AND conclusion = ?3"
                    " AND finished_at < ?4)",
                    (identity, branch, conclusion, start),
                )
            )
    open_jobs = find_open_jobs(observations)
    for identity, (pipeline, job, _) in newest.items():
        if (pipeline, job) in open_jobs:
            observations += (
                _observation_of(row)
                for row in connection.execute(
                    f"{source} WHERE e.identity = ? AND e.branch = ?"
                    f" AND e.conclusion IN ({_PASSED}, {_FAILED}) AND e.finished_at < ?",
                    (identity, branch, start),
                )
            )
    return observations


def _store_judgement(connection: sqlite3.Connection, test: int, judgement: Judgement) -> None:
    columns = (*HEALTH_COLUMNS, *METADATA_FIELDS)
    health = judgement.health
    metadata = judgement.metadata
    connection.execute(
        f"UPDATE tests SET {', '.join(column + ' = ?' for column in columns)} WHERE id = ?",
        (
            health.health_status.value,
            health.last_conclusion,
            health.failure_ratio,
            health.flakiness_ratio,
            health.success_ratio,
            microseconds_or_none(health.first_failure_at),
            health.first_failure_commit,
            text_of_pull(health.first_failure_pull) or None,
            microseconds_or_none(health.last_failure_at),
            microseconds_or_none(health.last_success_at),
            metadata.framework,
            metadata.framework_version,
            metadata.language,
            metadata.filepath,
            metadata.function_name,
            test,
        ),
    )


def refresh_quarantines(connection: sqlite3.Connection, test: int) -> None:
    """Recompute whether the test has recovered under each of its quarantines."""
    quarantines = connection.execute(
        "SELECT q.id, q.branch, q.created_at FROM quarantines q"
        " JOIN tests t ON t.test_id = q.test_id WHERE t.id = ? AND q.removed_at IS NULL",
        (test,),
    ).fetchall()
    for quarantine_id, pattern, created_at in quarantines:
        rows = connection.execute(
            f"SELECT {_OBSERVATION}, b.name FROM executions e JOIN runs r ON r.id = e.run"
            " JOIN identities i ON i.id = e.identity JOIN branches b ON b.id = e.branch"
            " WHERE e.identity IN (SELECT id FROM identities WHERE test = ?)"
            " AND e.finished_at >= ?",
            (test, created_at),
        )
        covered = [
            _observation_of(row[:-1])
            for row in rows
            if pattern is None or matches(pattern, row[-1])
        ]
        connection.execute(
            "UPDATE quarantines SET is_recovered = ? WHERE id = ?",
            (is_recovered(covered), quarantine_id),
        )


def _observation_of(row: tuple[Any, ...]) -> Observation:
    pipeline, job, commit, conclusion, finished_at, retries, infrastructure, pull, *metadata = row
    return Observation(
        pipeline_name=pipeline,
        job_name=job,
        commit=commit,
        conclusion=CONCLUSIONS[conclusion],
        finished_at=from_microseconds(finished_at),
        needed_retries=bool(retries),
        infrastructure_failure=bool(infrastructure),
        pull=pull_of_text(pull),
        metadata=TestMetadata(*metadata),
    )
