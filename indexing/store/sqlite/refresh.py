"""Refreshes stale tests: updates their roll-ups, and what is derived from these."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import Any, Final

from indexing.globs import matches
from indexing.health.observations import Judgement
from indexing.health.recovery import Recovery
from indexing.health.rollup_text import read_recovery, write_recovery
from indexing.health.rollups import find_newest
from indexing.health.rules import build_rollups, judge_rollups
from indexing.models.changes import AnswerChanges
from indexing.models.tests import METADATA_FIELDS, metadata_values
from indexing.names import RepositoryName
from indexing.quarantine.decision import JudgedState, find_evidence
from indexing.quarantine.updates import RuleSettings
from indexing.store.sqlite.answers import noted
from indexing.store.sqlite.auto_quarantine import apply_rules
from indexing.store.sqlite.columns import text_of_pull
from indexing.store.sqlite.events import read_pruned_before
from indexing.store.sqlite.metrics import store_metrics
from indexing.store.sqlite.notices import notify_health
from indexing.store.sqlite.observations import OnBranch, read_since, read_until
from indexing.store.sqlite.rollups import (
    BRANCH_OF_REPOSITORY,
    find_default_branch,
    read_final_until,
    read_rollups,
    store_rollups,
)
from indexing.store.sqlite.tests import HEALTH_COLUMNS, health_of
from indexing.timestamps import from_microseconds, microseconds_or_none, to_microseconds

_JUDGED: Final = (*HEALTH_COLUMNS, *METADATA_FIELDS)
_STORED: Final = ", ".join(f"t.{column}" for column in _JUDGED)
_JUDGED_PUT: Final = ", ".join(f"{name} = ?" for name in _JUDGED)


def refresh_some(
    connection: sqlite3.Connection,
    limit: int,
    now: datetime,
    repository: RepositoryName | None,
    seconds: float,
    *,
    noting: bool,
) -> tuple[int, bool, list[AnswerChanges]]:
    """Refresh the first `limit` stale tests, of one repository or of all.

    Returns the number of tests, whether more may be stale, and, if `noting`, what changed in the
    answers of the API. Starts no further test after `seconds`.
    """
    changes: list[AnswerChanges] = []
    deadline = time.monotonic() + seconds
    within = "" if repository is None else " WHERE r.key = ?"
    stale = connection.execute(
        "SELECT s.test, s.recompute FROM stale_tests s JOIN tests t ON t.id = s.test"
        f" JOIN repositories r ON r.id = t.repository_id{within} ORDER BY s.test LIMIT ?",
        (*([] if repository is None else [repository.key]), limit),
    ).fetchall()
    final_until = read_final_until(connection)
    refreshed: list[tuple[int]] = []
    for test, recompute in stale:
        with noted(connection, test, changes) if noting else nullcontext():
            _refresh(connection, test, to_microseconds(now), final_until, recompute=bool(recompute))
        refreshed.append((test,))
        if time.monotonic() > deadline:
            break
    connection.executemany("DELETE FROM unmerged WHERE test = ?", refreshed)
    connection.executemany("DELETE FROM stale_tests WHERE test = ?", refreshed)
    is_more = len(refreshed) < len(stale) or len(stale) == limit
    return len(refreshed), is_more, changes


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
    branch = find_default_branch(connection, test)
    rollups = read_rollups(connection, test, branch, recompute=bool(recompute))
    evidence = find_evidence(rollups.by_job.values())
    return None if evidence is None else to_microseconds(evidence.last_at)


def _refresh(
    connection: sqlite3.Connection, test: int, now: int, final_until: int, *, recompute: bool
) -> None:
    row = connection.execute(
        f"SELECT ({BRANCH_OF_REPOSITORY}), r.flaky_detection, r.auto_quarantine,"
        " r.ignore_broken_on_default_branch, r.quarantine_after,"
        f" EXISTS (SELECT 1 FROM webhooks w WHERE w.repository_id = r.id), {_STORED}"
        " FROM tests t JOIN repositories r ON r.id = t.repository_id WHERE t.id = ?",
        (test,),
    ).fetchone()
    (
        branch,
        flaky_detection,
        auto_quarantine,
        ignore_broken,
        quarantine_after,
        has_webhooks,
        *judged,
    ) = row
    rollups = read_rollups(connection, test, branch, recompute=recompute, final_until=final_until)
    store_rollups(connection, test, rollups, final_until)
    by_job = rollups.by_job
    before = health_of(judged[: len(HEALTH_COLUMNS)])
    judge_test = partial(judge_rollups, flaky_detection=bool(flaky_detection), before=before)
    judgement = judge_test(by_job, rollups.fresh)
    if rollups.fresh or recompute:
        _store_judgement(connection, test, tuple(judged), judgement)
        if has_webhooks:
            after = judgement.health.health_status
            notify_health(connection, test, before.health_status, after, from_microseconds(now))
    store_metrics(
        connection,
        {each.identity: each.row for each in rollups.identities},
        {each.identity: judgement.rows.get(each.job) for each in rollups.identities},
    )
    if auto_quarantine:
        newest_of_all = find_newest(by_job.values()).newest_at if by_job else None

        def state_until(until: int) -> JudgedState:
            if newest_of_all is None or newest_of_all <= until:
                return JudgedState.of(judgement, by_job.values())
            seen = read_until(connection, test, rollups.branch, until)
            older = build_rollups(seen)
            return JudgedState.of(judge_test(older, seen), older.values())

        apply_rules(
            connection,
            test,
            now=now,
            newest=newest_of_all,
            unchanged_until=None if recompute else rollups.oldest_new,
            state_until=state_until,
            settings=RuleSettings(bool(ignore_broken), quarantine_after),
        )
    _update_recovery(connection, test, None if recompute else rollups.unmerged)


def _store_judgement(
    connection: sqlite3.Connection, test: int, stored: tuple[Any, ...], judgement: Judgement
) -> None:
    """Write what is derived for a test, if it differs from the stored values of `_JUDGED`."""
    health = judgement.health
    values = (
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
        *metadata_values(judgement.metadata),
    )
    if values != stored:
        connection.execute(f"UPDATE tests SET {_JUDGED_PUT} WHERE id = ?", (*values, test))


def refresh_quarantines(connection: sqlite3.Connection, test: int) -> None:
    """Recompute whether the test has recovered under each of its quarantines."""
    _update_recovery(connection, test, None)


def _update_recovery(
    connection: sqlite3.Connection, test: int, new: Sequence[OnBranch] | None
) -> None:
    """Update the recovery under each quarantine with new executions; `None` recomputes it.

    Of a quarantine that retention has reached, verdicts that passed are gone, so they are kept.
    """
    quarantines = connection.execute(
        "SELECT q.id, q.branch, q.created_at, q.recovery FROM quarantines q"
        " JOIN tests t ON t.test_id = q.test_id WHERE t.id = ? AND q.removed_at IS NULL",
        (test,),
    ).fetchall()
    pruned_before = None
    if any(new is None or text is None for *_, text in quarantines):
        pruned_before = read_pruned_before(connection)
    for quarantine_id, pattern, created_at, text in quarantines:
        known = new is not None and text is not None
        before = Recovery() if text is None else read_recovery(text)
        if not known:
            is_reached = pruned_before is not None and created_at < pruned_before
            before = before.without_executions() if is_reached else Recovery()
        seen = new if known and new is not None else read_since(connection, test, created_at)
        covered = (
            each.observation
            for each in seen
            if each.observation.at >= created_at
            and (pattern is None or matches(pattern, each.branch))
        )
        recovery = before.merge(covered)
        if not known or recovery != before:
            connection.execute(
                "UPDATE quarantines SET is_recovered = ?, recovery = ? WHERE id = ?",
                (recovery.is_recovered, write_recovery(recovery), quarantine_id),
            )
