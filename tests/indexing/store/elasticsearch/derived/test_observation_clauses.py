"""Queries about tests: all that the rules need, once, in requests that any cluster accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indexing.health.thresholds import WINDOW
from indexing.store.elasticsearch.derived.observation_clauses import (
    MAX_LEAVES,
    Clause,
    JobSummary,
    clauses_for_health,
    clauses_since,
    requests_of,
)

DAY = 86_400_000_000
NOW = 1_790_000_000_000_000

# The leaves of one clause, as Lucene counts them: a number has an index and a column.
_NUMBER = 2

# One execution: test, job, whether it failed, and when.
Row = tuple[str, str, bool, int]
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["unit", "e2e", "lint"]),
        st.booleans(),
        st.integers(0, 120).map(lambda days: NOW - days * DAY)
        # Doubles cannot represent these exactly.
        | st.integers(0, 120).map(lambda days: 2**53 + 12_345 - days * DAY),
    ),
    min_size=1,
    max_size=30,
)


def extents_of(rows: list[Row]) -> dict[str, dict[tuple[str, str], JobSummary]]:
    found: dict[str, dict[tuple[str, str], JobSummary]] = {}
    for test, job, _, _ in rows:
        own = [row for row in rows if row[:2] == (test, job)]
        failed = [int(float(at)) for *_, bad, at in own if bad]
        passed = [int(float(at)) for *_, bad, at in own if not bad]
        found.setdefault(test, {})["ci", job] = JobSummary(
            len(own),
            max(int(float(row[3])) for row in own),
            min(failed, default=None),
            max(failed, default=None),
            max(passed, default=None),
        )
    return found


def finds(query: Mapping[str, Any], row: Row) -> bool:
    (kind, body), *_ = query.items()
    if kind == "bool":
        if "should" in body:
            return any(finds(each, row) for each in body["should"])
        return all(finds(each, row) for each in body["filter"])
    ((field, wanted),) = body.items()
    value = {"test_id": row[0], "finished_at": row[3]}[field]
    if kind == "terms":
        return value in wanted
    return bool(wanted["gte"] <= value <= wanted.get("lte", value))


def count_leaves(query: Mapping[str, Any]) -> int:
    (kind, body), *_ = query.items()
    if kind == "bool":
        return sum(count_leaves(each) for parts in body.values() for each in parts)
    return _NUMBER if "finished_at" in body else 1


@given(ROWS)
def test_each_execution_that_the_rules_need_is_found_once(rows: list[Row]) -> None:
    clauses = list(clauses_for_health(extents_of(rows)))
    for row in rows:
        own = [other for other in rows if other[0] == row[0]]
        newest = max(at for *_, at in own)
        alike = [at for *_, bad, at in own if bad == row[2]]
        needed = (
            newest // DAY - row[3] // DAY < WINDOW.days
            or row[3] == max(alike)
            or (row[2] and row[3] == min(alike))
        )
        found = sum(finds(clause.query, row) for clause in clauses)
        assert found == 1 if needed else found <= 1, (row, clauses)


@given(ROWS)
def test_a_clause_counts_what_the_cluster_counts(rows: list[Row]) -> None:
    for clause in clauses_for_health(extents_of(rows)):
        assert clause.leaves >= count_leaves(clause.query)


def test_nothing_after_the_last_moment_is_asked_for() -> None:
    summaries = extents_of([("a", "unit", True, NOW)])
    (clause,) = clauses_for_health(summaries, NOW + 5)
    assert finds(clause.query, ("a", "unit", True, NOW + 5))
    assert not finds(clause.query, ("a", "unit", True, NOW + 6))


def test_a_matrix_of_jobs_costs_what_one_job_costs() -> None:
    """500 tests that each ran last on a different day, and failed before that."""

    def history(jobs: int) -> list[Clause]:
        return list(
            clauses_for_health(
                {
                    f"test-{number}": {
                        ("ci", f"job-{job}"): JobSummary(2, newest, old, old + job, newest)
                        for job in range(jobs)
                    }
                    for number, newest, old in (
                        (n, NOW + n * DAY, NOW - 40 * DAY + 100 * n) for n in range(500)
                    )
                }
            )
        )

    few, many = history(1), history(64)
    assert len(few) == len(many) == 1_000
    for request in requests_of(many):
        assert sum(map(count_leaves, request)) <= MAX_LEAVES
    assert [query for request in requests_of(many) for query in request] == [
        clause.query for clause in many
    ]


def test_tests_of_one_report_share_their_clauses() -> None:
    jobs = {("ci", "unit"): JobSummary(2, NOW, NOW - 40 * DAY, NOW - 40 * DAY, NOW)}
    assert len(list(clauses_for_health({f"test-{n}": jobs for n in range(500)}))) == 2
    assert len(list(clauses_since({f"test-{n}": NOW for n in range(500)}))) == 1


def test_everything_since_a_moment_is_found() -> None:
    clauses = list(clauses_since({"a": NOW, "b": NOW - 1}))
    seen = [("a", NOW), ("a", NOW - 1), ("b", NOW - 1), ("b", NOW - 2)]
    found = [
        (test, at)
        for test, at in seen
        if any(finds(clause.query, (test, "unit", True, at)) for clause in clauses)
    ]
    assert found == [("a", NOW), ("b", NOW - 1)]
