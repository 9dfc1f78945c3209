"""Applies the rules to the quarantine of a test on every branch; ends quarantines that expired.

`indexing.quarantine` makes the decision. The rules make no quarantine of single branches.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from typing import Final

from indexing.identifiers import derive_quarantine_id
from indexing.models.quarantines import RULES, ChangeAction, QuarantineSource
from indexing.quarantine.changes import find_withdrawal_time
from indexing.quarantine.decision import JudgedState
from indexing.quarantine.updates import (
    QuarantineState,
    RuleSettings,
    decide_update,
    is_settled,
    run_steps,
)
from indexing.store.sqlite.quarantine_changes import add_change, add_expiry
from indexing.timestamps import from_microseconds, moment_or_none, to_microseconds

# A quarantine in force that covers every branch, written as in the unique index of quarantines.
_EVERY_BRANCH: Final = "ifnull(branch, char(0)) = char(0) AND removed_at IS NULL"


def end_expired(connection: sqlite3.Connection, test_id: bytes, now: int) -> None:
    """End a test's expired quarantines, so that new ones can take their place."""
    expired = connection.execute(
        "SELECT id FROM quarantines WHERE test_id = ? AND removed_at IS NULL AND expires_at <= ?",
        (test_id, now),
    ).fetchall()
    # No statement is run for the tests without any, which are most: a process of a rebuild cannot
    # write, and leaves out the tests for which it would have to.
    for (quarantine_id,) in expired:
        connection.execute(
            "UPDATE quarantines SET removed_at = expires_at, evidence_until = expires_at"
            " WHERE id = ?",
            (quarantine_id,),
        )
        add_expiry(connection, quarantine_id)


def withdraw_automatic(connection: sqlite3.Connection, test_id: bytes, now: int) -> None:
    """Withdraw a test's automatic quarantines in force, even if their decisions are final."""
    end_expired(connection, test_id, now)
    in_force = connection.execute(
        "SELECT id FROM quarantines WHERE test_id = ? AND source = ? AND removed_at IS NULL",
        (test_id, QuarantineSource.AUTO.value),
    ).fetchall()
    for (quarantine_id,) in in_force:
        _withdraw(connection, quarantine_id, now)


def apply_rules(
    connection: sqlite3.Connection,
    test: int,
    *,
    now: int,
    newest: int | None,
    unchanged_until: int | None,
    state_until: Callable[[int], JudgedState],
    settings: RuleSettings,
) -> None:
    """Apply the update that `indexing.quarantine.updates` decides on.

    All times are in microseconds. `newest` is when the test's newest execution on the default
    branch finished. `state_until(t)` returns the test's state by the executions that had
    finished by `t`. If `unchanged_until` is set, no execution that finished before it has changed
    since the last call.
    """
    repository_id, test_id, test_name = connection.execute(
        "SELECT repository_id, test_id, test_name FROM tests WHERE id = ?", (test,)
    ).fetchone()
    end_expired(connection, test_id, now)
    ended, answered_until = connection.execute(
        "SELECT count(*), max(evidence_until) FROM quarantines"
        " WHERE test_id = ? AND branch IS NULL AND removed_at IS NOT NULL",
        (test_id,),
    ).fetchone()
    in_force = connection.execute(
        "SELECT id, judged_until, created_at FROM quarantines"
        f" WHERE test_id = ? AND {_EVERY_BRANCH}",
        (test_id,),
    ).fetchone()
    in_force_id, judged_until, created_at = in_force or (b"", None, now)
    if is_settled(judged_until, created_at, unchanged_until):
        return
    update = run_steps(
        decide_update(
            QuarantineState(
                is_in_force=in_force is not None,
                judged_until=moment_or_none(judged_until),
                answered_until=moment_or_none(answered_until),
            ),
            now=from_microseconds(now),
            newest=moment_or_none(newest),
            settings=settings,
        ),
        lambda moment: state_until(to_microseconds(moment)),
    )
    if update.reason is not None:
        reworded = connection.execute(
            "UPDATE quarantines SET reason = ?1 WHERE id = ?2 AND reason != ?1",
            (update.reason, in_force_id),
        )
        if reworded.rowcount:
            add_change(connection, in_force_id, ChangeAction.UPDATED, now, RULES)
    if update.withdraw:
        taken_back_at = find_withdrawal_time(
            from_microseconds(now),
            from_microseconds(created_at),
            begins_again=update.new is not None,
        )
        _withdraw(connection, in_force_id, to_microseconds(taken_back_at))
    if update.new is not None:
        new_id = derive_quarantine_id(uuid.UUID(bytes=test_id), ended).bytes
        connection.execute(
            "INSERT INTO quarantines (id, repository_id, test_id, test_name, reason, source,"
            " created_at, judged_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                new_id,
                repository_id,
                test_id,
                test_name,
                update.new.reason,
                QuarantineSource.AUTO.value,
                now,
                to_microseconds(update.new.judged_until),
            ),
        )
        add_change(connection, new_id, ChangeAction.ADDED, now, RULES)


def _withdraw(connection: sqlite3.Connection, quarantine_id: bytes, at: int) -> None:
    """Delete a quarantine as if it had never existed; the log of changes has its end."""
    add_change(connection, quarantine_id, ChangeAction.TAKEN_BACK, at, RULES)
    connection.execute("DELETE FROM quarantines WHERE id = ?", (quarantine_id,))
