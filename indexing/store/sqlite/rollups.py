"""Reads and stores the roll-ups of the identities of a test.

New executions are merged into a stored roll-up where that is exact; else the roll-up is computed
from all executions.

Daily rows outlive the executions that they count. Rows of days that retention has reached are
final. So is the health of a day whose window reaches back to such a day, except for the newest day.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from indexing.health.first_passes import derive_first_pass
from indexing.health.history import History, build_history, merge_history
from indexing.health.judged_jobs import find_left_out, has_become_full, has_room
from indexing.health.lasting_verdicts import count_once
from indexing.health.merging import InexactMergeError, build_rollup, merge_rollup
from indexing.health.observations import Judgement, Observation
from indexing.health.rollup_text import read_rollup, write_rollup
from indexing.health.rollups import DailyRollup, Job, KeptVerdict, Merged, Rollup
from indexing.health.thresholds import WINDOW
from indexing.health.window import NEVER, day_number, day_of
from indexing.store.sqlite.histories import NO_HISTORY, StoredHistory, read_stored_history
from indexing.store.sqlite.meta import read_number, write_number
from indexing.store.sqlite.observations import (
    OnBranch,
    StoredRuns,
    find_first_results,
    read_identity,
)
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from indexing.store.sqlite.run_days import keep_days
from indexing.store.sqlite.stored_tests import NOT_JUDGED, StoredTest

# The row of `meta` with the newest day of which retention has removed executions.
_FINAL_DAY: Final = "rollups_final_until"
_FOREVER: Final = 2**63 - 1
# The texts of stored roll-ups without results; None if there is none.
_NO_RESULTS: Final = (None, write_rollup(None))
_NO_VERDICTS: Final[Mapping[str, KeptVerdict]] = MappingProxyType({})

_COLUMNS: Final = ", ".join(DailyRollup._fields)
_HEALTH: Final = DailyRollup._fields.index("health")


class IdentityRollup(NamedTuple):
    """The roll-up of one identity after a merge or a computation.

    `row` has the stored values of `METRICS_COLUMNS`. `stored` are the row id of the branch and the
    text of the stored roll-up. `days` are the days that changed, and `verdicts` those that may
    have; with `is_whole`, they are all of the identity's executions. With `is_of_other_branch`, the
    stored roll-up is of an earlier default branch. With `is_new`, there was no stored roll-up.
    """

    identity: int
    job: Job
    row: tuple[Any, ...]
    stored: tuple[int | None, bytes | None]
    rollup: Rollup | None
    days: Sequence[DailyRollup] = ()
    verdicts: Mapping[str, KeptVerdict] = _NO_VERDICTS
    is_changed: bool = False
    is_whole: bool = False
    is_of_other_branch: bool = False
    is_new: bool = False

    @property
    def has_stored_results(self) -> bool:
        """Whether the stored roll-up has any results."""
        return self.stored[1] not in _NO_RESULTS

    def list_days(self) -> Sequence[DailyRollup]:
        """Return the days in the roll-up and the days to write, oldest first."""
        if self.rollup is not None and (
            not self.days or self.days[0].day >= self.rollup.days[0].day
        ):
            # The roll-up has all days of its window.
            return self.rollup.days
        days = {} if self.rollup is None else {day.day: day for day in self.rollup.days}
        days |= {day.day: day for day in self.days}
        return [days[day] for day in sorted(days)]


@dataclass(frozen=True, slots=True)
class RollupsOfTest:
    """The roll-ups of the identities of one test that are not new, or have results that count.

    `fresh` are the executions on the default branch that may be the first or last failure or
    success. `unmerged` are all new executions, on any branch. `history` is the new history of the
    test; `stored_history` is the stored one.
    """

    branch: int | None
    identities: Sequence[IdentityRollup]
    fresh: Sequence[Observation]
    unmerged: Sequence[OnBranch]
    history: History
    stored_history: StoredHistory

    @property
    def oldest_new(self) -> int:
        """When the oldest new execution on the default branch finished."""
        return min(
            (each.observation.at for each in self.unmerged if each.branch_row == self.branch),
            default=_FOREVER,
        )

    @property
    def is_just_full(self) -> bool:
        """Whether the test has just reached the limit of jobs by which it is judged."""
        if has_room(len(self.identities)):
            return False
        before = sum(each.has_stored_results for each in self.identities)
        return has_become_full(before, len(self.by_job))

    @property
    def by_job(self) -> Mapping[Job, Rollup]:
        return {each.job: each.rollup for each in self.identities if each.rollup is not None}


def find_first_pass(test: StoredTest, final_day: int) -> tuple[RollupsOfTest, Judgement] | None:
    """Return the roll-ups and the judgement of a new test whose only execution passed.

    None for any other test.
    """
    if len(test.identities) != 1 or len(test.unmerged) != 1:
        return None
    (identity,), (new,) = test.identities, test.unmerged
    branch = test.repository.branch
    is_new = identity.state is None and test.history is None and test.judged == NOT_JUDGED
    if not is_new or new.branch_row != branch:
        return None
    seen = new.observation
    if day_number(seen.at) <= final_day:
        return None
    first = derive_first_pass(seen, flaky_detection=test.repository.flaky_detection)
    if first is None:
        return None
    before = IdentityRollup(
        identity.identity, identity.job, identity.row, (None, None), None, is_new=True
    )
    rollups = RollupsOfTest(
        branch,
        (_after(before, first.merged, is_whole=True),),
        (seen,),
        test.unmerged,
        first.history,
        NO_HISTORY,
    )
    return rollups, first.judgement


def update_rollups(
    connection: sqlite3.Connection,
    test: StoredTest,
    runs: StoredRuns,
    *,
    recompute: bool,
    final_day: int = NEVER,
) -> RollupsOfTest:
    """Return the up-to-date roll-ups of a test, without storing anything.

    `recompute` computes them from all executions.
    """
    branch = test.repository.branch
    new: dict[int, list[Observation]] = {}
    for seen in test.unmerged:
        if seen.branch_row == branch:
            new.setdefault(seen.identity, []).append(seen.observation)
    stored = [
        IdentityRollup(
            each.identity,
            each.job,
            each.row,
            (each.branch, each.state),
            None if each.state is None or recompute else read_rollup(each.state),
            is_of_other_branch=each.branch is not None and each.branch != branch,
            is_new=each.state is None,
        )
        for each in test.identities
    ]
    _leave_out_further_jobs(stored, new)
    is_of_other_branch = any(each.is_of_other_branch for each in stored)
    has_days = not all(each.is_new for each in stored)
    stored_history = read_stored_history(connection, test, has_days=has_days)
    before = stored_history.history
    if not (recompute or is_of_other_branch):
        with suppress(InexactMergeError):
            identities = [
                _merge(connection, test.test, branch, each, new.get(each.identity, ()), runs)
                if each.identity in new
                else each
                for each in stored
            ]
            history = merge_history(
                before,
                {each.job: each.list_days() for each in identities},
                {
                    each.job: min([day_number(seen.at) for seen in new[each.identity]])
                    for each in identities
                    if each.identity in new
                },
                final_day,
                {each.job: each.verdicts for each in identities if each.identity in new},
            )
            fresh = [seen for arrived in new.values() for seen in arrived]
            return RollupsOfTest(branch, identities, fresh, test.unmerged, history, stored_history)
    fresh = []
    identities = []
    left_out = _find_left_out(connection, test.test, branch, stored)
    for each in stored:
        observations: list[Observation] = []
        if each.job not in left_out:
            observations = read_identity(connection, each.identity, each.job, branch, runs)
        if each.is_new and not observations:
            continue
        fresh += observations
        identities.append(_after(each, build_rollup(observations), is_whole=True))
    history = build_history(
        History() if is_of_other_branch else before,
        {each.job: each.days for each in identities},
        final_day,
        {each.job: each.verdicts for each in identities},
    )
    return RollupsOfTest(branch, identities, fresh, test.unmerged, history, stored_history)


def store_rollups(
    connection: sqlite3.Connection, rollups: RollupsOfTest, final_day: int, rows: RefreshedRows
) -> None:
    """Add the rows that changed; every execution of the test counts as merged afterwards."""
    has_days = not all(each.is_new for each in rollups.identities)
    for each in rollups.identities:
        if not each.is_changed:
            continue
        # An empty roll-up has a branch, too: the history may be of executions that are gone.
        branch, text = rollups.branch, write_rollup(each.rollup)
        # A rebuild changes few tests, so it does not write the others.
        if each.stored != (branch, text):
            rows.rollups.append((each.identity, branch, text))
        lasting = rollups.history.lasting.get(each.job, ())
        days = [day for day in count_once(each.days, lasting) if day.day > final_day]
        if each.is_whole and has_days:
            days = _replace_days(connection, each, days, final_day, rows)
        rows.days += [(each.identity, *day) for day in days]


def read_final_day(connection: sqlite3.Connection) -> int:
    """Return the newest day whose daily rows are final."""
    found = read_number(connection, _FINAL_DAY)
    return NEVER if found is None else found


def finish_days(connection: sqlite3.Connection, before: datetime) -> None:
    """Mark the daily rows as final that lose executions when retention reaches that moment."""
    final_day = read_final_day(connection)
    day = max(day_of(before), final_day)
    if day == final_day:
        return
    keep_days(connection, final_day, day)
    write_number(connection, _FINAL_DAY, day)


def prune_days(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` daily rows of days before that moment; return their number."""
    done = connection.execute(
        "DELETE FROM daily_rollups WHERE (identity, day) IN"
        " (SELECT identity, day FROM daily_rollups WHERE day < ? ORDER BY day LIMIT ?)",
        (day_of(before), limit),
    )
    return done.rowcount


def _leave_out_further_jobs(
    stored: Sequence[IdentityRollup], new: dict[int, list[Observation]]
) -> None:
    """Remove the new executions of jobs by which the test is not judged, as it has too many."""
    identities = {each.job: each.identity for each in stored if each.rollup is None}
    begun = [job for job, identity in identities.items() if identity in new]
    left_out = find_left_out(
        len(stored) - len(identities),
        begun,
        lambda job: min(seen.at for seen in new[identities[job]]),
    )
    for job in left_out:
        del new[identities[job]]


def _find_left_out(
    connection: sqlite3.Connection, test: int, branch: int | None, stored: Sequence[IdentityRollup]
) -> frozenset[Job]:
    """Return the jobs by which a test that is computed is not judged, as it has too many."""
    if has_room(len(stored)):
        return frozenset()
    first_at = find_first_results(connection, test, branch)
    first_results = {
        each.job: first_at[each.identity] for each in stored if each.identity in first_at
    }
    before = {
        each.job for each in stored if each.has_stored_results and not each.is_of_other_branch
    }
    return find_left_out(0, first_results, first_results.__getitem__, before)


def _merge(
    connection: sqlite3.Connection,
    test: int,
    branch: int | None,
    before: IdentityRollup,
    arrived: Sequence[Observation],
    runs: StoredRuns,
) -> IdentityRollup:
    """Merge new executions into the roll-up of an identity.

    Raises:
        InexactMergeError: the roll-up has to be computed from all executions.
    """
    if before.is_new:
        # All of its executions on the branch are new.
        return _after(before, build_rollup(arrived), is_whole=True)
    if before.rollup is None:
        observations = read_identity(connection, before.identity, before.job, branch, runs)
        return _after(before, build_rollup(observations), is_whole=True)
    has_earlier = _earlier_finder(connection, test, branch, before)
    return _after(before, merge_rollup(before.rollup, arrived, has_earlier), is_whole=False)


def _after(before: IdentityRollup, merged: Merged, *, is_whole: bool) -> IdentityRollup:
    return before._replace(
        rollup=merged.rollup,
        days=merged.days,
        verdicts=merged.verdicts,
        is_changed=True,
        is_whole=is_whole,
    )


def _earlier_finder(
    connection: sqlite3.Connection, test: int, branch: int | None, identity: IdentityRollup
) -> Callable[[str], bool]:
    def has_earlier(commit: str) -> bool:
        row = connection.execute(
            "SELECT 1 FROM runs r INDEXED BY runs_by_commit CROSS JOIN executions e ON e.run = r.id"
            " WHERE r.repository_id = (SELECT repository_id FROM tests WHERE id = ?1)"
            " AND r.commit_sha = ?2 AND r.pipeline_name = ?3 AND r.job_name = ?4 AND r.branch = ?5"
            " AND e.identity = ?6"
            " AND NOT EXISTS (SELECT 1 FROM unmerged WHERE test = ?1 AND execution = e.id)",
            (test, commit, *identity.job, branch, identity.identity),
        ).fetchone()
        return row is not None

    return has_earlier


def _replace_days(
    connection: sqlite3.Connection,
    each: IdentityRollup,
    days: Sequence[DailyRollup],
    final_day: int,
    rows: RefreshedRows,
) -> list[DailyRollup]:
    """Drop the rows of days without executions, and return the days that have to be written."""
    if each.is_of_other_branch:
        rows.days_of_other_branches.append((each.identity,))
        return list(days)
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM daily_rollups WHERE identity = ? AND day > ? ORDER BY day",
        (each.identity, final_day),
    ).fetchall()
    if found == days:
        return []
    stored: dict[int, tuple[Any, ...]] = {row[0]: row for row in found}
    written = {day.day for day in days}
    rows.dropped_days += [(each.identity, day) for day in stored if day not in written]
    newest = max(written, default=0)
    settled = [
        day._replace(health=stored[day.day][_HEALTH])
        if day.day in stored and final_day + WINDOW.days > day.day and day.day != newest
        else day
        for day in days
    ]
    return [day for day in settled if stored.get(day.day) != day]
