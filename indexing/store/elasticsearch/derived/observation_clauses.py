"""The executions of many tests, as query clauses split into small requests. Pure.

A cluster limits the clauses of a query by its heap and its threads, and counts every nested leaf.
So tests that need the same moments share a clause, and each request holds few clauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TIME: Final = "finished_at"

# No cluster allows less than 1,024.
MAX_LEAVES: Final = 500
# A clause on a number counts twice: once for its index and once for its doc values.
_LEAVES_OF_TERMS: Final = 1
_LEAVES_OF_NUMBER: Final = 2
# A cluster limits the terms of one clause too, to 65,536.
_TESTS_A_CLAUSE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Clause:
    """Part of a query, and its number of leaves for the cluster's limit."""

    query: Mapping[str, Any]
    leaves: int


def clauses_between(
    moments: Mapping[str, int | None], latest: int | None = None
) -> Iterator[Clause]:
    """Yield the clauses for all executions of each test from its moment on, in microseconds.

    `None` is the beginning. `latest`, if given, is the last moment that counts. No execution
    matches two of the clauses.
    """
    starts: dict[int | None, list[str]] = {}
    for test, moment in moments.items():
        starts.setdefault(moment, []).append(test)
    for start, tests in starts.items():
        for at in range(0, len(tests), _TESTS_A_CLAUSE):
            yield _between(tests[at : at + _TESTS_A_CLAUSE], start, latest)


def requests_of(clauses: Iterable[Clause]) -> Iterator[list[Mapping[str, Any]]]:
    """Split the clauses, in order, into requests of at most `MAX_LEAVES` leaves."""
    request: list[Mapping[str, Any]] = []
    leaves = 0
    for clause in clauses:
        if request and leaves + clause.leaves > MAX_LEAVES:
            yield request
            request, leaves = [], 0
        request.append(clause.query)
        leaves += clause.leaves
    if request:
        yield request


def _between(tests: list[str], start: int | None, latest: int | None) -> Clause:
    bounds = ({} if start is None else {"gte": start}) | ({} if latest is None else {"lte": latest})
    filters: list[Mapping[str, Any]] = [{"terms": {"test_id": tests}}]
    if bounds:
        filters.append({"range": {TIME: bounds}})
    return Clause({"bool": {"filter": filters}}, _LEAVES_OF_TERMS + _LEAVES_OF_NUMBER)
