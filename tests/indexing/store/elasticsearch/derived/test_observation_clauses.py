"""Queries about tests: all executions, once, in requests that any cluster accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indexing.store.elasticsearch.derived.observation_clauses import (
    MAX_LEAVES,
    clauses_since,
    requests_of,
)

NOW = 1_790_000_000_000_000

# The leaves of one clause, as Lucene counts them: a number has an index and a column.
_NUMBER = 2

# One execution: test, and when.
Row = tuple[str, int]
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30)
MOMENTS = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9))


def finds(query: Mapping[str, Any], row: Row) -> bool:
    ((kind, body),) = query.items()
    if kind == "bool":
        return all(finds(each, row) for each in body["filter"])
    ((field, wanted),) = body.items()
    value = {"test_id": row[0], "finished_at": row[1]}[field]
    if kind == "terms":
        return value in wanted
    return bool(value >= wanted["gte"])


def count_leaves(query: Mapping[str, Any]) -> int:
    ((kind, body),) = query.items()
    if kind == "bool":
        return sum(count_leaves(each) for parts in body.values() for each in parts)
    return _NUMBER if "finished_at" in body else 1


@given(ROWS, MOMENTS)
def test_each_execution_since_its_moment_is_found_once(
    rows: list[Row], moments: dict[str, int | None]
) -> None:
    clauses = list(clauses_since(moments))
    for test, at in rows:
        since = moments.get(test)
        wanted = test in moments and (since is None or at >= since)
        assert sum(finds(clause.query, (test, at)) for clause in clauses) == wanted


@given(MOMENTS)
def test_a_clause_counts_what_the_cluster_counts(moments: dict[str, int | None]) -> None:
    for clause in clauses_since(moments):
        assert clause.leaves >= count_leaves(clause.query)


def test_no_request_has_more_leaves_than_a_cluster_takes() -> None:
    clauses = list(clauses_since({f"test-{n}": NOW + n for n in range(500)}))
    requests = list(requests_of(clauses))
    assert all(sum(map(count_leaves, request)) <= MAX_LEAVES for request in requests)
    assert [query for request in requests for query in request] == [
        clause.query for clause in clauses
    ]


def test_tests_of_one_report_share_a_clause_that_no_cluster_refuses() -> None:
    assert len(list(clauses_since({f"test-{n}": NOW for n in range(500)}))) == 1
    many = list(clauses_since({f"test-{n}": None for n in range(70_000)}))
    assert (
        max(len(clause.query["bool"]["filter"][0]["terms"]["test_id"]) for clause in many) < 65_536
    )
