"""The executions that the health rules need, as query clauses split into small requests. Pure.

The rules need all executions inside the window. Of the older ones they need the oldest failure, the
newest failure and the newest success of the test, in any job. Other executions at the same moments
are read too, and the rules ignore them. Of a few jobs they need all older executions.

A cluster limits the clauses of a query by its heap and its threads, and counts every nested leaf.
So tests that need the same moments share a clause, and each request holds few clauses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from indexing.health.window import window_start

TIME: Final = "finished_at"

# No cluster allows less than 1,024.
MAX_LEAVES: Final = 500
# A clause on a number counts twice: once for its index and once for its doc values.
_LEAVES_OF_TERMS: Final = 1
_LEAVES_OF_NUMBER: Final = 2

# Aggregations compute in doubles, which are exact for whole numbers up to this (the year 2255).
_EXACT: Final = 2**53
_INEXACTNESS: Final = 64


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The executions of one (pipeline, job) of a test, summarised; times in microseconds."""

    executions: int
    newest: int
    first_failed: int | None
    last_failed: int | None
    last_passed: int | None


@dataclass(frozen=True, slots=True)
class Clause:
    """Part of a query, and its number of leaves for the cluster's limit."""

    query: Mapping[str, Any]
    leaves: int


# By test id and by (pipeline, job).
JobSummaries = Mapping[str, Mapping[tuple[str, str], JobSummary]]


def clauses_for_health(summaries: JobSummaries, latest: int | None = None) -> Iterator[Clause]:
    """Yield the clauses for what the rules need; no execution matches two of them.

    `latest`, if given, is the last moment that counts.
    """
    windows: dict[int, list[str]] = {}
    older: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for test, jobs in summaries.items():
        newest = max(summary.newest for summary in jobs.values())
        # An inexact moment may have been rounded up to the next day: rather read a day too many.
        start = window_start(newest if abs(newest) < _EXACT else newest - _INEXACTNESS)
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
    """Yield the clauses for all executions of each test from its moment on."""
    starts: dict[int, list[str]] = {}
    for test, moment in moments.items():
        starts.setdefault(moment, []).append(test)
    for start, tests in starts.items():
        yield _since(tests, start)


def clauses_before(jobs: Mapping[tuple[str, str, str], int]) -> Iterator[Clause]:
    """Yield the clauses for all executions of each (test, pipeline, job) before its moment."""
    for (test, pipeline, job), moment in jobs.items():
        filters = [
            {"term": {"test_id": test}},
            {"term": {"pipeline_name": pipeline}},
            {"term": {"job_name": job}},
            {"range": {TIME: {"lt": moment}}},
        ]
        yield Clause({"bool": {"filter": filters}}, 3 * _LEAVES_OF_TERMS + _LEAVES_OF_NUMBER)


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


def _moments_before(start: int, summaries: Iterable[JobSummary]) -> tuple[int, ...]:
    """Return the moments before the window that the rules need, oldest first."""
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
