"""Updates whether tests have recovered under their quarantines."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from indexing.health.recovery import Recovery
from indexing.health.rollup_text import read_recovery, write_recovery
from indexing.models.quarantines import covers_branch
from indexing.store.sqlite.events import read_pruned_before
from indexing.store.sqlite.observations import OnBranch, read_since
from indexing.store.sqlite.stored_tests import InForce, read_in_force


def refresh_quarantines(connection: sqlite3.Connection, test: int) -> None:
    """Recompute whether the test has recovered under each of its quarantines."""
    update_recovery(connection, test, read_in_force(connection, test), None)


def update_recovery(
    connection: sqlite3.Connection,
    test: int,
    quarantines: Sequence[InForce],
    new: Sequence[OnBranch] | None,
) -> None:
    """Update the recovery under each quarantine with new executions; `None` recomputes it.

    Of a quarantine that retention has reached, verdicts that passed are gone, so they are kept.
    """
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
            if each.observation.at >= created_at and covers_branch(pattern, each.branch)
        )
        recovery = before.merge(covered)
        if not known or recovery != before:
            connection.execute(
                "UPDATE quarantines SET is_recovered = ?, recovery = ? WHERE id = ?",
                (recovery.is_recovered, write_recovery(recovery), quarantine_id),
            )
