"""The filters and orders of the search over random histories, compared with a plain oracle.

The metrics are those of `tests.independent_health`, which shares no code with the product.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing import globs
from indexing.models.executions import Conclusion
from indexing.models.file_selections import FileSelection
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import QuarantineRequest
from indexing.models.repositories import RepositoryChange
from indexing.models.tests import HealthStatus, IdentityKey, TestQuery, TestSort
from indexing.models.tests import TestIdentity as Row
from indexing.models.tests import TestMetrics as Metrics
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import NOON, after, make_executions, make_run
from tests.contracts.conftest import on_stores_and_one_cache
from tests.contracts.walking import walk_both_ways
from tests.independent_health import measure_rows

_numbers = itertools.count()

NAMES = ("a.x", "a.y", "b.x", "b.[x]", "c")
FILES = (None, "src/a.py", "src/b.py")
GLOBS = ("*", "a.*", "*x*", "*.[x]", "b.x", "?", "src/*", "*b.py")
LETTERS = {
    "passed": Conclusion.PASSED,
    "retried": Conclusion.PASSED,
    "failed": Conclusion.FAILED,
    "skipped": Conclusion.SKIPPED,
}
# In sort order: the worst last.
HEALTH = ("healthy", "unknown", "flaky", "broken")


@dataclass(frozen=True)
class Result:
    """One execution on the default branch."""

    test: str
    job: str
    hours: int
    commit: str
    result: str
    duration: float | None
    file: str | None


RESULTS = st.builds(
    Result,
    st.sampled_from(NAMES),
    st.sampled_from(["linux", "linux", "mac"]),
    st.integers(-40 * 24, 0) | st.integers(-60, 0),
    st.integers(0, 30).map(str),
    st.sampled_from(["passed", "passed", "failed", "failed", "skipped", "retried"]),
    st.none() | st.sampled_from([0.0, 0.25, 1.5]),
    st.sampled_from(FILES),
)
QUARANTINES = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from([None, "main", "ma*", "release/*"]),
        st.none() | st.integers(1, 3),
    ),
    max_size=3,
)
HEALTHS = st.lists(st.sampled_from(list(HealthStatus)), max_size=3, unique=True).map(tuple)
PATTERNS = st.lists(st.sampled_from(GLOBS), min_size=1, max_size=2, unique=True).map(tuple)
SELECTIONS = st.builds(
    FileSelection,
    st.lists(st.sampled_from(("src/a.py", "src/b.py", "src/c.py")), unique=True).map(tuple),
    st.booleans(),
)
QUERIES = st.builds(
    TestQuery,
    st.just(RepositoryName("none", "yet")),
    PATTERNS,
    sort=st.sampled_from(list(TestSort)),
    descending=st.booleans(),
    jobs=st.sampled_from([(), (), ("mac",)]),
    patterns_excluded=st.just(()) | PATTERNS,
    filepaths=st.just(()) | PATTERNS,
    files=st.none() | SELECTIONS,
    health=st.none() | HEALTHS,
    quarantined=st.none() | st.booleans(),
    with_metrics=st.just(True),
    now=st.integers(0, 3).map(lambda days: after(days=days)),
)


async def load(store: Store, repository: RepositoryName, results: list[Result], at: int) -> None:
    for number, each in enumerate(results, start=at):
        run = make_run(str(number), job=each.job, commit=each.commit)
        executions = make_executions(
            run,
            [(each.test, LETTERS[each.result])],
            moment_of(each, number),
            repository=repository,
            duration=each.duration,
            filepath=each.file,
            needed_retries=each.result == "retried",
        )
        await store.write_results(repository, {run: executions})
    await store.refresh_tests(after(days=1))


def moment_of(result: Result, number: int) -> datetime:
    # No two executions have the same time.
    return after(hours=result.hours, seconds=number)


@dataclass(frozen=True)
class Expected:
    """One row as the oracle has it."""

    test: str
    job: str
    file: str | None
    metrics: Mapping[str, Any]
    quarantines: tuple[tuple[str | None, int | None], ...]

    def is_quarantined(self, now: datetime) -> bool:
        return any(
            (branch is None or globs.matches(branch, "main"))
            and (days is None or now < after(days=days))
            for branch, days in self.quarantines
        )

    def matches(self, query: TestQuery) -> bool:
        status = HealthStatus(self.metrics["health_status"])
        return (
            any(globs.matches(pattern, self.test) for pattern in query.patterns)
            and not any(globs.matches(pattern, self.test) for pattern in query.patterns_excluded)
            and (not query.jobs or self.job in query.jobs)
            and (query.health is None or status in query.health)
            and query.quarantined in (None, self.is_quarantined(query.now))
            and (
                not query.filepaths
                or (
                    self.file is not None
                    and any(globs.matches(pattern, self.file) for pattern in query.filepaths)
                )
            )
            and (query.files is None or self.is_of(query.files))
        )

    def is_of(self, files: FileSelection) -> bool:
        return files.without_file if self.file is None else self.file in files.paths

    def place(self, sort: TestSort) -> tuple[Any, ...]:
        names = {"test_name": self.test, "pipeline_name": "ci", "job_name": self.job}
        value = names.get(sort.value, self.metrics.get(sort.value))
        if sort is TestSort.HEALTH_STATUS:
            value = HEALTH.index(value)
        return (value is not None, value, self.test, self.job)

    def shown(self, now: datetime) -> Metrics:
        fields = {
            **self.metrics,
            "health_status": HealthStatus(self.metrics["health_status"]),
            "latest_verdicts": tuple(self.metrics["latest_verdicts"]),
        }
        return Metrics(**fields, is_quarantined=self.is_quarantined(now))


def expect(
    results: list[Result], quarantines: list[tuple[str, str | None, int | None]], *, detection: bool
) -> list[Expected]:
    rows = []
    for test in {each.test for each in results}:
        of_test = [(n, each) for n, each in enumerate(results) if each.test == test]
        executions = [
            {
                "result": each.result,
                "job": ("ci", each.job),
                "commit": each.commit,
                "at": moment_of(each, number),
                "duration": each.duration,
                "machine_failed": False,
            }
            for number, each in of_test
        ]
        newest = max(moment_of(each, number) for number, each in of_test)
        first_day = (newest - timedelta(days=29)).date()
        files = [
            (moment_of(each, number), each.file)
            for number, each in of_test
            if each.file is not None and moment_of(each, number).date() >= first_day
        ]
        for (_, job), metrics in measure_rows(executions, flaky_detection=detection).items():
            of_name = tuple((branch, days) for name, branch, days in quarantines if name == test)
            rows.append(Expected(test, job, max(files)[1] if files else None, metrics, of_name))
    return rows


@on_stores_and_one_cache
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(RESULTS, min_size=1, max_size=30),
    st.integers(0, 30),
    QUARANTINES,
    st.booleans(),
    st.lists(QUERIES, min_size=1, max_size=5),
    st.integers(1, 4),
)
async def test_what_is_found_sorted_and_shown_agrees_with_the_oracle(
    store: Store,
    results: list[Result],
    cut: int,
    quarantines: list[tuple[str, str | None, int | None]],
    detection: bool,
    queries: list[TestQuery],
    limit: int,
) -> None:
    repository = RepositoryName("metrics", f"r{next(_numbers)}")
    await store.ensure_repository(repository)
    change = RepositoryChange(flaky_detection=detection)
    await store.set_repository(repository, change, NOON)
    # In two loads, so that some rows are merged into; at any time, so that some are computed.
    await load(store, repository, results[:cut], 0)
    await load(store, repository, results[cut:], len(results[:cut]))
    # One of a test and branch is in force at a time: the later one replaces the earlier.
    latest = {(name, branch): (name, branch, days) for name, branch, days in quarantines}
    for name, branch, days in latest.values():
        ends = None if days is None else after(days=days)
        request = QuarantineRequest(name, "by hand", branch=branch, expires_at=ends)
        await store.add_quarantine(repository, request, NOON)
    expected = expect(results, list(latest.values()), detection=detection)
    for each in queries:
        query = replace(each, repository=repository)

        async def read(anchor: Anchor[IdentityKey], query: TestQuery = query) -> Page[Row]:
            return await store.search_tests(query, anchor, limit)

        found = await walk_both_ways(read)
        assert await store.count_matches(query, 100) == len(found)
        matching = [row for row in expected if row.matches(query)]
        if query.sort is TestSort.JOB_NAME:
            matching.sort(key=lambda row: (row.job, row.test), reverse=query.descending)
        else:
            order = query.sort
            matching.sort(key=lambda row: row.place(order), reverse=query.descending)
        told = [(row.key.test_name, row.key.job_name, row.metrics) for row in found]
        assert told == [(row.test, row.job, row.shown(query.now)) for row in matching]
