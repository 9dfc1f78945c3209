"""Builds the query clauses for the executions of tests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FINISHED_AT: Final = "finished_at"


def clauses_since(moments: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the clauses for the executions of each test since its moment, in microseconds.

    No execution matches two of them. Tests with the same moment share a clause, because a cluster
    limits the leaf clauses of a query: every cluster takes those of some 300 clauses.
    """
    tests_since: dict[int, list[str]] = {}
    for test, moment in moments.items():
        tests_since.setdefault(moment, []).append(test)
    return [
        {"bool": {"filter": [{"terms": {"test_id": tests}}, _since(moment)]}}
        for moment, tests in tests_since.items()
    ]


def _since(moment: int) -> dict[str, Any]:
    return {"range": {FINISHED_AT: {"gte": moment}}}
