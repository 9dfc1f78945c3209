"""Updates whether tests have recovered under their quarantines."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from indexing.health.recovery import (
    BranchEvidence,
    Recovery,
    VerdictTimes,
    collect_evidence,
    select_branches,
    sum_verdicts,
)
from indexing.health.rollup_text import read_recovery, write_recovery
from indexing.models.executions import Conclusion
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS
from indexing.store.sqlite.events import read_pruned_before
from indexing.store.sqlite.observations import OnBranch
from indexing.store.sqlite.stored_tests import InForce, read_in_force

_PASSED: Final = f"e.conclusion = {CONCLUSION_NUMBERS[Conclusion.PASSED]} AND NOT e.needed_retries"
_VERDICTS: Final = (
    "SELECT b.name, i.pipeline_name, i.job_name, r.commit_sha,"
    f" max(e.finished_at) FILTER (WHERE {_PASSED}),"
    f" max(e.finished_at) FILTER (WHERE NOT ({_PASSED}))"
    " FROM executions e JOIN runs r ON r.id = e.run JOIN identities i ON i.id = e.identity"
    " JOIN branches b ON b.id = e.branch"
    " WHERE e.identity IN (SELECT id FROM identities WHERE test = ?) AND e.finished_at >= ?"
    f" AND e.conclusion != {CONCLUSION_NUMBERS[Conclusion.SKIPPED]}"
    " AND NOT r.infrastructure_failure GROUP BY e.branch, e.identity, r.commit_sha"
)


def judge_new_quarantine(connection: sqlite3.Connection, test: int, branch: str | None) -> None:
    """Compute whether the test has recovered under its quarantine of that branch pattern.

    If it is known, as for an older quarantine, no execution is read.
    """
    of_test = read_in_force(connection, test)
    update_recovery(connection, test, [each for each in of_test if each.branch == branch], ())


def update_recovery(
    connection: sqlite3.Connection,
    test: int,
    quarantines: Sequence[InForce],
    new: Sequence[OnBranch] | None,
) -> None:
    """Update the recovery under each quarantine with new executions; `None` recomputes it.

    Of a quarantine that retention has reached, verdicts that passed are gone, so they are kept.
    """
    unknown = [each for each in quarantines if new is None or each.recovery is None]
    of_new: Mapping[str, BranchEvidence] = {}
    of_all: Mapping[str, BranchEvidence] = {}
    if new is not None and len(unknown) < len(quarantines):
        of_new = collect_evidence((each.branch, each.observation) for each in new)
    pruned_before = None
    if unknown:
        pruned_before = read_pruned_before(connection)
        since = min(each.created_at for each in unknown)
        of_all = sum_verdicts(_read_verdicts(connection, test, since))
    for quarantine_id, pattern, created_at, text in quarantines:
        known = new is not None and text is not None
        before = Recovery() if text is None else read_recovery(text)
        if not known:
            is_reached = pruned_before is not None and created_at < pruned_before
            before = before.without_executions() if is_reached else Recovery()
        covered = select_branches(of_new if known else of_all, pattern)
        recovery = before.merge(covered, created_at)
        if not known or recovery != before:
            connection.execute(
                "UPDATE quarantines SET is_recovered = ?, recovery = ? WHERE id = ?",
                (recovery.is_recovered, write_recovery(recovery), quarantine_id),
            )


def _read_verdicts(connection: sqlite3.Connection, test: int, since: int) -> Iterator[VerdictTimes]:
    """Yield the verdicts of a test on every branch, by executions since then.

    SQLite sums them up, because a test may have tens of thousands of them.
    """
    for branch, *verdict, passed_at, failed_at in connection.execute(_VERDICTS, (test, since)):
        yield VerdictTimes(branch, tuple(verdict), passed_at, failed_at)
