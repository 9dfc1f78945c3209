"""What the rules do to the quarantines of one test; whether it belongs in one is decided elsewhere.

Only quarantines of every branch are dealt with here: the rules make no others.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from typing import Final

from indexing.identifiers import derive_quarantine_id
from indexing.models.quarantines import QuarantineSource
from indexing.quarantine.decision import Standing, explain_quarantine
from indexing.store.sqlite.columns import moment_or_none

# How the unique index over scopes spells every branch.
_EVERY_BRANCH: Final = "ifnull(branch, char(0)) = char(0) AND removed_at IS NULL"


def end_expired(connection: sqlite3.Connection, test_id: bytes, now: int) -> None:
    """Close the records of a test that have expired, so that their scopes are free again."""
    connection.execute(
        "UPDATE quarantines SET removed_at = expires_at, evidence_until = expires_at"
        " WHERE test_id = ? AND removed_at IS NULL AND expires_at <= ?",
        (test_id, now),
    )


def apply_rules(
    connection: sqlite3.Connection,
    test: int,
    *,
    now: int,
    newest: int | None,
    standing_until: Callable[[int], Standing],
    ignore_broken: bool,
) -> None:
    """Quarantine the test where the rules say so, or take back what they should not have said.

    `newest` is when its newest execution on the default branch finished. `standing_until` judges
    the test by the executions that had finished by then.
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

    def explain(until: int) -> str | None:
        return explain_quarantine(
            standing_until(until),
            ignore_broken=ignore_broken,
            answered_until=moment_or_none(answered_until),
        )

    stands = connection.execute(
        f"SELECT id, judged_until FROM quarantines WHERE test_id = ? AND {_EVERY_BRANCH}",
        (test_id,),
    ).fetchone()
    if stands is not None:
        quarantine_id, judged_until = stands
        if judged_until is None:
            return
        if newest is not None and judged_until > now:
            # It was made by results of the future: those that came since belong with them.
            judged_until = max(judged_until, newest)
        reason = explain(judged_until)
        if reason is not None:
            connection.execute(
                "UPDATE quarantines SET reason = ? WHERE id = ? AND reason != ?",
                (reason, quarantine_id, reason),
            )
            return
        connection.execute("DELETE FROM quarantines WHERE id = ?", (quarantine_id,))
    # A machine whose clock runs ahead of this one's must not have its results left out.
    until = now if newest is None else max(now, newest)
    reason = explain(until)
    if reason is not None:
        connection.execute(
            "INSERT INTO quarantines (id, repository_id, test_id, test_name, reason, source,"
            " created_at, judged_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                derive_quarantine_id(uuid.UUID(bytes=test_id), ended).bytes,
                repository_id,
                test_id,
                test_name,
                reason,
                QuarantineSource.AUTO.value,
                now,
                until,
            ),
        )
