"""Which executions the health rules need, as clauses of a query cut into small requests. Pure.

Of the window the rules need everything. Of what is older they need the oldest failure, the newest
failure and the newest success of the test, whatever job they are of; what else shares such a moment
is read along, and the rules choose.

A cluster bounds the clauses of a query by its heap and its threads, and counts every leaf of nested
ones. So tests that need the same moments share a clause, and a request holds few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from indexing.health.thresholds import WINDOW

TIME: Final = "finished_at"

# No cluster allows less than 1,024.
MAX_LEAVES: Final = 500
# A clause on a number counts twice: once for its index and once for its column.
_LEAVES_OF_TERMS: Final = 1
_LEAVES_OF_NUMBER: Final = 2

_WINDOW_MICROSECONDS: Final = int(WINDOW.total_seconds()) * 1_000_000

# Aggregations reckon in doubles, which hold whole numbers up to this one (the year 2255) exactly.
_EXACT: Final = 2**53
_INEXACTNESS: Final = 64


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A summary of the executions of one (pipeline, job) of a test; times in microseconds."""

    executions: int
    newest: int
    first_failed: int | None
    last_failed: int | None
    last_passed: int | None


@dataclass(frozen=True, slots=True)
class Clause:
    """Part of a query, and how much it counts for the cluster's bound."""

    query: Mapping[str, Any]
    leaves: int


# Of each test, by its id, and of each of its (pipeline, job).
JobSummaries = Mapping[str, Mapping[tuple[str, str], JobSummary]]


def clauses_for_health(summaries: JobSummaries, latest: int | None = None) -> Iterator[Clause]:
    """The clauses that find what the rules need of these tests, each execution by one of them.

    `latest` is the last moment that counts, where there is one.
    """
    windows: dict[int, list[str]] = {}
    older: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for test, jobs in summaries.items():
        start = max(summary.newest for summary in jobs.values()) - _WINDOW_MICROSECONDS
        windows.setdefault(start, []).append(test)
        moments = _moments_before(start, jobs.values())
        if moments:
            exact = all(abs(moment) < _EXACT for moment in moments)
            older.setdefault((0 if exact else start, moments), []).append(test)
    for start, tests in windows.items():
        yield _since(tests, start, latest)
    for (start, moments), tests in older.items():
        yield _at(tests, moments, start)


def clauses_since(moments: Mapping[str, int]) -> Iterator[Clause]:
    """The clauses that find everything of each test from its moment on."""
    starts: dict[int, list[str]] = {}
    for test, moment in moments.items():
        starts.setdefault(moment, []).append(test)
    for start, tests in starts.items():
        yield _since(tests, start)


def requests_of(clauses: Iterable[Clause]) -> Iterator[list[Mapping[str, Any]]]:
    """The clauses in their order, as many together as one request may hold."""
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


def _moments_before(start: int, summaries: Iterable[JobSummary]) -> tuple[int, ...]:
    """The moments before the window that the rules ask for, oldest first."""
    jobs = list(summaries)
    first_failed = [job.first_failed for job in jobs if job.first_failed is not None]
    last_failed = [job.last_failed for job in jobs if job.last_failed is not None]
    last_passed = [job.last_passed for job in jobs if job.last_passed is not None]
    found = {
        *((min(first_failed),) if first_failed else ()),
        *((max(last_failed),) if last_failed else ()),
        *((max(last_passed),) if last_passed else ()),
    }
    return tuple(sorted(moment for moment in found if moment < start))


def _since(tests: list[str], start: int, latest: int | None = None) -> Clause:
    bounds = {"gte": start} | ({} if latest is None else {"lte": latest})
    return _both(tests, {"range": {TIME: bounds}}, _LEAVES_OF_NUMBER)


def _at(tests: list[str], moments: tuple[int, ...], start: int) -> Clause:
    if all(abs(moment) < _EXACT for moment in moments):
        return _both(tests, {"terms": {TIME: list(moments)}}, _LEAVES_OF_NUMBER)
    ranges = [
        {
            "range": {
                TIME: {"gte": moment - _INEXACTNESS, "lte": min(moment + _INEXACTNESS, start - 1)}
            }
        }
        for moment in moments
    ]
    return _both(tests, {"bool": {"should": ranges}}, _LEAVES_OF_NUMBER * len(ranges))


def _both(tests: list[str], times: Mapping[str, Any], leaves: int) -> Clause:
    named = {"terms": {"test_id": tests}}
    return Clause({"bool": {"filter": [named, times]}}, _LEAVES_OF_TERMS + leaves)
