"""Refreshes stale tests: updates their roll-ups, and what is derived from these."""

from __future__ import annotations

import logging
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from indexing.errors import DATA_ERRORS
from indexing.health.judged_jobs import TESTS_ARE_FULL
from indexing.health.observations import Judgement
from indexing.health.rollups import find_newest
from indexing.health.rules import judge_rollups
from indexing.models.changes import AnswerChanges
from indexing.models.tests import TestHealth
from indexing.names import RepositoryName
from indexing.quarantine.decision import JudgedState
from indexing.quarantine.past_states import PastStates
from indexing.quarantine.updates import RuleSettings
from indexing.store.sqlite.auto_quarantine import apply_rules
from indexing.store.sqlite.clauses import json_array
from indexing.store.sqlite.histories import store_history
from indexing.store.sqlite.metrics import store_metrics
from indexing.store.sqlite.notices import notify_health
from indexing.store.sqlite.observations import StoredRuns, read_on_branch
from indexing.store.sqlite.recoveries import update_recovery
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from indexing.store.sqlite.rollups import (
    RollupsOfTest,
    find_first_pass,
    read_final_day,
    store_rollups,
    update_rollups,
)
from indexing.store.sqlite.stale_tests import LATER
from indexing.store.sqlite.stored_tests import (
    JUDGED_COLUMNS,
    NOT_JUDGED,
    StoredTest,
    judged_values,
    read_in_force,
    read_stored_tests,
)
from indexing.store.sqlite.tests import HEALTH_COLUMNS, health_of
from indexing.timestamps import from_microseconds, to_microseconds

_log = logging.getLogger(__name__)

_HEALTH_SIZE: Final = len(HEALTH_COLUMNS)
_UNKNOWN_HEALTH: Final = TestHealth()
_HISTORY_COLUMNS: Final = ("history", "lasting_verdicts")

# How many stale tests are read with one statement, and how many new executions of them: enough to
# make the fixed cost of a statement negligible, few enough for little memory.
_TESTS_AT_ONCE: Final = 32
_EXECUTIONS_AT_ONCE: Final = 200
# How many computed tests are written with one statement each.
_WRITTEN_AT_ONCE: Final = 20
# The rows of all tests are written at the end, which takes up to half as long as all before.
_SHARE_BEFORE_WRITING: Final = 2 / 3
_STALE: Final = (
    "SELECT s.test, s.recompute, (SELECT count(*) FROM (SELECT 1 FROM unmerged u"
    f" WHERE u.test = s.test AND NOT s.recompute LIMIT {_EXECUTIONS_AT_ONCE}))"
    " FROM stale_tests s"
)
_THESE: Final = "s.test NOT IN (SELECT value FROM json_each(?))"
_OF_ALL: Final = f" WHERE {_THESE} ORDER BY s.test LIMIT ?"
_OF_REPOSITORY: Final = (
    " INDEXED BY stale_tests_by_repository"
    " WHERE s.repository_id = (SELECT r.id FROM repositories r WHERE r.key = ?)"
    f" AND s.recompute < {LATER} AND {_THESE} ORDER BY s.recompute, s.test LIMIT ?"
)


class RefreshError(Exception):
    """The data of one of these tests, given by their row ids, make the rules fail."""

    def __init__(self, tests: Sequence[int]) -> None:
        super().__init__(f"one of {len(tests)} tests cannot be judged")
        self.tests = tests


def refresh_some(
    connection: sqlite3.Connection,
    limit: int,
    now: datetime,
    repository: RepositoryName | None,
    seconds: float,
    *,
    noting: bool,
    left_out: Collection[int] = (),
) -> tuple[int, bool, list[AnswerChanges]]:
    """Refresh the first `limit` stale tests without `left_out`, of one repository or of all.

    Of one repository, those are left that a rebuild or a prune marked, which refreshes them itself.

    Returns the number of tests, whether more may be stale, and, if `noting`, what changed in the
    answers of the API. Starts no further test if the transaction would take more than `seconds`.

    Raises:
        RefreshError: the data of one of these tests make the rules fail.
    """
    changes: list[AnswerChanges] = []
    deadline = time.monotonic() + seconds * _SHARE_BEFORE_WRITING
    stale = connection.execute(
        f"{_STALE}{_OF_ALL if repository is None else _OF_REPOSITORY}",
        (
            *([] if repository is None else [repository.key]),
            json_array(left_out),
            limit,
        ),
    ).fetchall()
    refresh = _Refresh(
        connection,
        StoredRuns(connection),
        to_microseconds(now),
        read_final_day(connection),
        changes if noting else None,
    )
    refreshed: list[tuple[int]] = []
    try:
        for test, recompute in _read_in_parts(connection, stale):
            refresh.run(test, recompute=recompute)
            refreshed.append((test.test,))
            if time.monotonic() > deadline:
                break
        refresh.rows.write(connection)
    except DATA_ERRORS as error:
        raise RefreshError([test for test, *_ in stale]) from error
    if refresh.full_tests:
        fields: dict[str, Any] = {"tests": refresh.full_tests}
        if repository is not None:
            fields["repository"] = str(repository)
        _log.warning(TESTS_ARE_FULL, extra=fields)
    connection.executemany("DELETE FROM unmerged WHERE test = ?", refreshed)
    connection.executemany("DELETE FROM stale_tests WHERE test = ?", refreshed)
    is_more = len(refreshed) < len(stale) or len(stale) == limit
    return len(refreshed), is_more, changes


def compute_changed_rows(
    connection: sqlite3.Connection, tests: Sequence[int], mark: int, now: datetime
) -> list[tuple[int, RefreshedRows]]:
    """Compute tests from all of their executions; return the rows of each that have to change.

    The connection is read-only, so tests that need other writes are left out, such as those with
    quarantines. So are those that cannot be judged, and those without the mark.
    """
    computed: list[tuple[int, RefreshedRows]] = []
    final_day = read_final_day(connection)
    runs = StoredRuns(connection)
    marked = _find_marked(connection, tests, mark)
    for test, _ in _read_in_parts(connection, [(test, mark, 0) for test in marked]):
        refresh = _Refresh(connection, runs, to_microseconds(now), final_day, None)
        try:
            refresh.run(test, recompute=True)
        except DATA_ERRORS:
            continue
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
                raise
        else:
            computed.append((test.test, refresh.rows))
    return computed


def write_computed(
    connection: sqlite3.Connection,
    computed: Sequence[tuple[int, RefreshedRows]],
    mark: int,
    seconds: float,
) -> tuple[int, int]:
    """Write the changed rows of tests, unless anything may have changed since they were marked.

    Begins no further test if the transaction would take more than `seconds`. Returns how many of
    `computed` are done, from the first one on, and how many of these are stale no longer.
    """
    deadline = time.monotonic() + seconds
    marked = frozenset(_find_marked(connection, [test for test, _ in computed], mark))
    done = written = 0
    while done < len(computed) and (not done or time.monotonic() < deadline):
        some = computed[done : done + _WRITTEN_AT_ONCE]
        done += len(some)
        rows = RefreshedRows()
        fresh = []
        for test, changed in some:
            if test in marked:
                rows.add(changed)
                fresh.append((test,))
        rows.write(connection)
        connection.executemany("DELETE FROM stale_tests WHERE test = ?", fresh)
        written += len(fresh)
    return done, written


def _find_marked(connection: sqlite3.Connection, tests: Sequence[int], mark: int) -> list[int]:
    """Return those of these tests that have the mark, and no new executions."""
    found = connection.execute(
        "SELECT s.test FROM stale_tests s WHERE s.recompute = ?"
        " AND s.test IN (SELECT value FROM json_each(?))"
        # An earlier release keeps the mark of a test with new executions.
        " AND NOT EXISTS (SELECT 1 FROM unmerged u WHERE u.test = s.test)",
        (mark, json_array(tests)),
    )
    return [test for (test,) in found]


def _read_in_parts(
    connection: sqlite3.Connection, stale: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[StoredTest, bool]]:
    """Yield the stale tests, each with whether to compute it from all executions.

    Each of `stale` has the test, that flag, and the number of its new executions.
    """
    part: list[tuple[int, bool]] = []
    executions = 0
    for place, (test, recompute, new) in enumerate(stale, start=1):
        part.append((test, bool(recompute)))
        executions += new
        is_full = len(part) == _TESTS_AT_ONCE or executions >= _EXECUTIONS_AT_ONCE
        if is_full or place == len(stale):
            tests = [test for test, _ in part]
            computed = {test for test, recompute in part if recompute}
            for stored in read_stored_tests(connection, tests, computed):
                yield stored, stored.test in computed
            part, executions = [], 0


class _Refresh:
    """Refreshes tests in one transaction; `rows` has to be written at its end.

    `full_tests` counts those that have just reached the limit of jobs by which a test is judged.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        runs: StoredRuns,
        now: int,
        final_day: int,
        changes: list[AnswerChanges] | None,
    ) -> None:
        self.rows = RefreshedRows()
        self.full_tests = 0
        self._connection = connection
        self._runs = runs
        self._now = now
        self._final_day = final_day
        self._changes = changes

    def run(self, test: StoredTest, *, recompute: bool) -> None:
        """Refresh one test, and note what changes in the answers of the API."""
        before = _UNKNOWN_HEALTH
        if test.judged != NOT_JUDGED:
            before = health_of(test.judged[:_HEALTH_SIZE])
        judge = partial(
            judge_rollups, flaky_detection=test.repository.flaky_detection, before=before
        )
        first = None if recompute else find_first_pass(test, self._final_day)
        if first is not None:
            rollups, judgement = first
        else:
            rollups = update_rollups(
                self._connection,
                test,
                self._runs,
                recompute=recompute,
                final_day=self._final_day,
            )
            judgement = judge(rollups.by_job, rollups.fresh)
        self.full_tests += rollups.is_just_full
        store_rollups(self._connection, rollups, self._final_day, self.rows)
        is_judged = bool(rollups.fresh) or recompute
        has_detail_changed = self._store_test(test, rollups, judgement if is_judged else None)
        if is_judged and test.repository.has_webhooks:
            notify_health(
                self._connection,
                test.test,
                before.health_status,
                judgement.health.health_status,
                from_microseconds(self._now),
            )
        changed = [
            store_metrics(each.identity, each.row, judgement.rows.get(each.job), self.rows)
            for each in rollups.identities
        ]
        have_quarantines_changed = self._update_quarantines(
            test, rollups, judgement, judge, recompute=recompute
        )
        if self._changes is None:
            return
        if has_detail_changed or any(changed) or have_quarantines_changed:
            self._changes.append(
                AnswerChanges(
                    test.repository.name,
                    frozenset((uuid.UUID(bytes=test.test_id),) if has_detail_changed else ()),
                    search=any(changed),
                    quarantines=have_quarantines_changed,
                )
            )

    def _store_test(
        self, test: StoredTest, rollups: RollupsOfTest, judgement: Judgement | None
    ) -> bool:
        """Add what differs in the row of the test; return whether its detail does."""
        texts = store_history(test, rollups.stored_history, rollups.history, self.rows)
        values = test.judged
        if judgement is not None:
            values = judged_values(judgement.health, judgement.metadata)
        if values == test.judged and texts is None:
            return False
        history = (test.history, test.lasting) if texts is None else texts
        columns: tuple[str, ...] = (*_HISTORY_COLUMNS, *JUDGED_COLUMNS)
        if values[_HEALTH_SIZE:] == test.judged[_HEALTH_SIZE:]:
            # Writing the path also updates its index.
            columns = (*_HISTORY_COLUMNS, *HEALTH_COLUMNS)
        written = (*history, *values)[: len(columns)]
        self.rows.updates["tests", columns].append((*written, test.test))
        return values != test.judged

    def _update_quarantines(
        self,
        test: StoredTest,
        rollups: RollupsOfTest,
        judgement: Judgement,
        judge: Callable[..., Judgement],
        *,
        recompute: bool,
    ) -> bool:
        """Apply the rules and update recoveries; return whether a quarantine changed."""
        repository = test.repository
        if not (repository.auto_quarantine or test.quarantines):
            return False
        noting = self._changes is not None
        before = _list_quarantines(self._connection, test) if noting else []
        in_force = test.quarantines
        if repository.auto_quarantine:
            self._apply_rules(test, rollups, judgement, judge, recompute=recompute)
            in_force = read_in_force(self._connection, test.test)
        new = None if recompute else rollups.unmerged
        update_recovery(self._connection, test.test, in_force, new)
        return noting and _list_quarantines(self._connection, test) != before

    def _apply_rules(
        self,
        test: StoredTest,
        rollups: RollupsOfTest,
        judgement: Judgement,
        judge: Callable[..., Judgement],
        *,
        recompute: bool,
    ) -> None:
        by_job = rollups.by_job
        newest_of_all = find_newest(by_job.values()).newest_at if by_job else None
        past: PastStates | None = None

        def state_until(until: int) -> JudgedState:
            nonlocal past
            if newest_of_all is None or newest_of_all <= until:
                return JudgedState.of(judgement, by_job.values())
            if past is None:
                past = PastStates(
                    read_on_branch(self._connection, test.test, rollups.branch),
                    by_job,
                    judge,
                )
            return past.until(until)

        apply_rules(
            self._connection,
            test.test,
            now=self._now,
            newest=newest_of_all,
            unchanged_until=None if recompute else rollups.oldest_new,
            state_until=state_until,
            settings=RuleSettings(test.repository.ignore_broken, test.repository.quarantine_after),
        )


def _list_quarantines(connection: sqlite3.Connection, test: StoredTest) -> list[tuple[Any, ...]]:
    """Return what the API shows of the quarantines in force."""
    return connection.execute(
        "SELECT id, reason, is_recovered FROM quarantines"
        " WHERE test_id = ? AND removed_at IS NULL ORDER BY id",
        (test.test_id,),
    ).fetchall()
