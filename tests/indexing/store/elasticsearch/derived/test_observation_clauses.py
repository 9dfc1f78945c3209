"""Queries about the executions of tests since a moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indexing.store.elasticsearch.derived.observation_clauses import clauses_since

NOW = 1_790_000_000_000_000

# One execution: test, and when.
Row = tuple[str, int]
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30)
MOMENTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))


def finds(query: Mapping[str, Any], row: Row) -> bool:
    ((kind, body),) = query.items()
    if kind == "bool":
        return all(finds(each, row) for each in body["filter"])
    ((field, wanted),) = body.items()
    value = {"test_id": row[0], "finished_at": row[1]}[field]
    if kind == "terms":
        return value in wanted
    return bool(value >= wanted["gte"])


@given(ROWS, MOMENTS)
def test_each_execution_since_its_moment_is_found_once(
    rows: list[Row], moments: dict[str, int]
) -> None:
    clauses = clauses_since(moments)
    for test, at in rows:
        wanted = test in moments and at >= moments[test]
        assert sum(finds(clause, (test, at)) for clause in clauses) == wanted


def test_tests_of_one_report_share_a_clause() -> None:
    assert len(clauses_since({f"test-{n}": NOW for n in range(500)})) == 1
