"""Builds the query clauses for the executions of many tests, split into small requests. Pure.

A cluster limits the leaf clauses of a query, depending on its heap and threads. So tests with the
same time range share a clause, and each request has few clauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

TIME: Final = "finished_at"

# The leaf clauses of one request. Every cluster allows at least 1,024.
MAX_LEAVES: Final = 500
# A clause on a number counts twice: once for its index and once for its doc values.
_LEAVES_OF_TERMS: Final = 1
_LEAVES_OF_NUMBER: Final = 2
# A cluster limits the terms of one clause too, to 65,536.
_TESTS_A_CLAUSE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a query, and its number of leaf clauses."""

    query: Mapping[str, Any]
    leaves: int


def clauses_since(moments: Mapping[str, int | None]) -> Iterator[Clause]:
    """Yield the clauses for the executions of each test from its start time onwards.

    `moments` has the start in microseconds by test; `None` means no start. No execution matches two
    of the clauses.
    """
    starts: dict[int | None, list[str]] = {}
    for test, moment in moments.items():
        starts.setdefault(moment, []).append(test)
    for start, tests in starts.items():
        for at in range(0, len(tests), _TESTS_A_CLAUSE):
            yield _since(tests[at : at + _TESTS_A_CLAUSE], start)


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


def _since(tests: list[str], start: int | None) -> Clause:
    filters: list[Mapping[str, Any]] = [{"terms": {"test_id": tests}}]
    if start is not None:
        filters.append({"range": {TIME: {"gte": start}}})
    return Clause({"bool": {"filter": filters}}, _LEAVES_OF_TERMS + _LEAVES_OF_NUMBER)
