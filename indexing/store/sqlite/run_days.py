"""Counts the executions of each run by UTC day, and keeps the sums of days beyond retention.

The rows of a run change in the transaction that changes its executions. Before retention deletes
executions, the days on the default branch that become final are added up, so their sums outlive the
executions. Durations are in microseconds, as REAL, because the sum of many may not fit into 64
bits.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from indexing.health.window import day_of
from indexing.models.executions import MAX_DURATION, Conclusion, Execution
from indexing.models.trends import duration_of
from indexing.store.sqlite.columns import CONCLUSION_NUMBERS
from indexing.timestamps import DAY_MICROSECONDS

_DAY: Final = DAY_MICROSECONDS
# `duration_of` in SQL: SQLite rounds halves up, Python rounds them to even.
_MICROSECONDS: Final = "e.duration * 1000000"
_ROUNDED: Final = f"round({_MICROSECONDS})"
_DURATION: Final = f"{_ROUNDED} - ({_ROUNDED} - {_MICROSECONDS} = 0.5 AND {_ROUNDED} % 2)"
# Counts one run's executions by day. SQLite rounds a division of integers towards zero, and times
# before 1970 are negative, so the remainder is made positive first.
_COUNTED: Final = (
    f"SELECT r.repository_id, r.branch,"
    f" (e.finished_at - ((e.finished_at % {_DAY} + {_DAY}) % {_DAY})) / {_DAY} AS day, r.id,"
    f" count(*) FILTER (WHERE e.conclusion = {CONCLUSION_NUMBERS[Conclusion.PASSED]}),"
    f" count(*) FILTER (WHERE e.conclusion = {CONCLUSION_NUMBERS[Conclusion.FAILED]}),"
    f" count(*) FILTER (WHERE e.conclusion = {CONCLUSION_NUMBERS[Conclusion.SKIPPED]}),"
    f" count(e.duration) FILTER (WHERE e.duration BETWEEN 0 AND {MAX_DURATION}),"
    f" total({_DURATION})"
    f" FILTER (WHERE e.duration BETWEEN 0 AND {MAX_DURATION})"
    " FROM executions e JOIN runs r ON r.id = e.run WHERE r.id = ? GROUP BY day"
)


def add_days(connection: sqlite3.Connection, run: int, executions: Sequence[Execution]) -> None:
    """Add executions that were just stored to the rows of their run."""
    counts: dict[int, Counter[str]] = {}
    for each in executions:
        counted = counts.setdefault(day_of(each.finished_at), Counter())
        counted[each.conclusion.value] += 1
        duration = duration_of(each.duration)
        if duration is not None:
            counted["durations"] += 1
            counted["total_duration"] += duration
    connection.executemany(
        "INSERT INTO run_days (repository_id, branch, day, run, passed, failed, skipped,"
        " durations, total_duration)"
        " SELECT repository_id, branch, ?2, ?1, ?3, ?4, ?5, ?6, ?7 FROM runs WHERE id = ?1"
        " ON CONFLICT DO UPDATE SET passed = passed + excluded.passed,"
        " failed = failed + excluded.failed, skipped = skipped + excluded.skipped,"
        " durations = durations + excluded.durations,"
        " total_duration = total_duration + excluded.total_duration",
        [
            (
                run,
                day,
                *(counted[conclusion.value] for conclusion in Conclusion),
                counted["durations"],
                float(counted["total_duration"]),
            )
            for day, counted in counts.items()
        ],
    )


def count_days_again(connection: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Recompute the rows of these runs from their remaining executions; a run may be deleted."""
    for run in runs:
        connection.execute("DELETE FROM run_days WHERE run = ?", (run,))
        connection.execute(f"INSERT INTO run_days {_COUNTED}", (run,))


def drop_days(connection: sqlite3.Connection, run: int, until: int) -> None:
    """Delete the rows of a run up to that final day: series read the sums of `past_days`."""
    connection.execute("DELETE FROM run_days WHERE run = ? AND day <= ?", (run, until))


def keep_days(connection: sqlite3.Connection, after: int, until: int) -> None:
    """Store the sums of the days that become final: after `after`, up to and including `until`."""
    connection.execute(
        "INSERT OR REPLACE INTO past_days (repository_id, branch, day, pipeline_name, job_name,"
        " passed, failed, skipped, durations, total_duration)"
        " SELECT d.repository_id, d.branch, d.day, r.pipeline_name, r.job_name, sum(d.passed),"
        " sum(d.failed), sum(d.skipped), sum(d.durations), total(d.total_duration)"
        " FROM repositories p JOIN branches b ON b.repository_id = p.id"
        " AND b.name = p.default_branch JOIN run_days d ON d.repository_id = p.id"
        " AND d.branch = b.id AND d.day > ?1 AND d.day <= ?2 JOIN runs r ON r.id = d.run"
        " GROUP BY d.repository_id, d.branch, d.day, r.pipeline_name, r.job_name",
        (after, until),
    )


def prune_past_days(connection: sqlite3.Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` sums of days before that moment; return their number."""
    done = connection.execute(
        "DELETE FROM past_days WHERE rowid IN (SELECT rowid FROM past_days WHERE day < ? LIMIT ?)",
        (day_of(before), limit),
    )
    return done.rowcount
