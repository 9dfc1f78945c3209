"""Daily series of a repository: results from the counts of runs, health from its changes."""

from __future__ import annotations

import sqlite3
import uuid
from typing import Final

from indexing.models.trends import DayQuery, DaySums, DaySumsOfTest, HealthCounts
from indexing.store.sqlite.clauses import any_of
from indexing.store.sqlite.repositories import find_repository_id
from indexing.store.sqlite.rollups import read_final_day
from indexing.store.sqlite.tests import find_test

_SUMS: Final = (
    "d.day, sum(d.passed), sum(d.failed), sum(d.skipped), sum(d.durations), total(d.total_duration)"
)
_ON_DEFAULT_BRANCH: Final = (
    "d.repository_id = ?1 AND d.branch = (SELECT b.id FROM repositories p JOIN branches b"
    " ON b.repository_id = p.id AND b.name = p.default_branch WHERE p.id = ?1)"
    " AND d.day BETWEEN ?2 AND ?3"
)


def sum_days(connection: sqlite3.Connection, query: DayQuery) -> dict[int, DaySums]:
    """Add up the executions of each day; days without executions are left out."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return {}
    final_day = read_final_day(connection)
    sums: dict[int, DaySums] = {}
    # The sums of final days have their pipeline and job; the rows of runs need a join for them.
    for source, named_in, first, last in (
        ("past_days d", "d", query.first_day, min(query.last_day, final_day)),
        ("run_days d", "r", max(query.first_day, final_day + 1), query.last_day),
    ):
        where, values = any_of(
            {f"{named_in}.pipeline_name": query.pipelines, f"{named_in}.job_name": query.jobs}
        )
        joined = " JOIN runs r ON r.id = d.run" if values and named_in == "r" else ""
        rows = connection.execute(
            f"SELECT {_SUMS} FROM {source}{joined} WHERE {_ON_DEFAULT_BRANCH}{where}"
            " GROUP BY d.day",
            (repository_id, first, last, *values),
        )
        sums |= {day: DaySums(*columns) for day, *columns in rows}
    return sums


def sum_days_of_test(
    connection: sqlite3.Connection, query: DayQuery, test_id: uuid.UUID
) -> dict[int, DaySumsOfTest] | None:
    """Add up the results of a test on each day that retention has not reached.

    Returns `None` if the repository has no such test.
    """
    test = find_test(connection, query.repository, test_id)
    if test is None:
        return None
    where, values = any_of({"i.pipeline_name": query.pipelines, "i.job_name": query.jobs})
    first = max(query.first_day, read_final_day(connection) + 1)
    of_test = (test, first, query.last_day, *values)
    executed = connection.execute(
        "SELECT d.day, sum(d.passed), sum(d.failed), sum(d.skipped), 0,"
        # `sum` fails if the sum of many jobs does not fit into 64 bits.
        " sum(d.durations), CAST(total(d.total_duration) AS INTEGER), max(d.longest_duration)"
        " FROM identities i JOIN daily_rollups d ON d.identity = i.id"
        f" WHERE i.test = ? AND d.day BETWEEN ? AND ?{where} GROUP BY d.day",
        of_test,
    )
    sums = {day: DaySumsOfTest(*columns) for day, *columns in executed}
    # Not those of the daily roll-ups: the series of the repository counts these.
    flaky = connection.execute(
        "SELECT f.day, sum(f.verdicts) FROM flaky_days f JOIN identities i ON i.id = f.identity"
        f" WHERE f.test = ? AND f.day BETWEEN ? AND ?{where} GROUP BY f.day",
        of_test,
    )
    for day, verdicts in flaky:
        sums[day] = sums.get(day, DaySumsOfTest())._replace(flaky_verdicts=verdicts)
    return sums


def count_flaky_verdicts(connection: sqlite3.Connection, query: DayQuery) -> dict[int, int]:
    """Count the flaky verdicts that began on each day; days without any are left out."""
    repository_id = find_repository_id(connection, query.repository)
    if repository_id is None:
        return {}
    where, values = any_of({"i.pipeline_name": query.pipelines, "i.job_name": query.jobs})
    joined = " JOIN identities i ON i.id = f.identity" if values else ""
    rows = connection.execute(
        f"SELECT f.day, sum(f.verdicts) FROM flaky_days f{joined}"
        f" WHERE f.repository_id = ? AND f.day BETWEEN ? AND ?{where} GROUP BY f.day",
        (repository_id, query.first_day, query.last_day, *values),
    )
    return dict(rows.fetchall())


def count_health(connection: sqlite3.Connection, query: DayQuery) -> HealthCounts:
    """Count the tests of each health before the first day, and the changes on each day after."""
    repository_id = find_repository_id(connection, query.repository)
    before: dict[str, int] = {}
    changes: dict[int, dict[str, int]] = {}
    rows = connection.execute(
        "SELECT max(day, ?2 - 1) AS since, previous, health, count(*) FROM health_changes"
        " INDEXED BY health_of_tests WHERE repository_id = ?1 AND identity = 0 AND day <= ?3"
        " GROUP BY since, previous, health",
        (repository_id, query.first_day, query.last_day),
    )
    for day, previous, health, count in rows:
        counts = before if day < query.first_day else changes.setdefault(day, {})
        counts[health] = counts.get(health, 0) + count
        if previous is not None:
            counts[previous] = counts.get(previous, 0) - count
    return HealthCounts(before, changes)
