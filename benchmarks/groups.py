"""Times groups of tests, and searches by health and by name: `python -m benchmarks.groups`.

It reads from the store directly, so nothing is cached. The only argument is the number
of tests, 6,100 or more.
`ELASTICSEARCH_URL` measures over a node there instead of SQLite.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.running.new_stores import new_folder, new_indices
from indexing.clocks import utc_now
from indexing.groups import FindValues, find_directory
from indexing.models.executions import Conclusion
from indexing.models.groups import MOST_GROUPS, Grouping
from indexing.models.paging import Anchor
from indexing.models.tests import HealthStatus, IdentityKey, TestQuery, TestSort
from indexing.owners.finding import Owners
from indexing.store import open_store
from indexing.store.interface import Store
from tests.builders import WIDGETS, make_executions, make_run
from tests.owners import read_owners

TESTS = 100_000
JOBS = ("linux", "mac", "windows", "bsd")
RULES = "".join(f"/tests/area_{number}/ @team-{number % 40}\n" for number in range(1_000))
# Page 601 of 10 rows begins here: among the tests that do not fail, not where they begin.
DEEP, STEP, PER_PAGE = 6_000, 100, 10
_TESTS_A_FILE = 20
_FAILS = 20
_BATCH = 10_000
_CALLS = 20


async def load(store: Store, tests: int) -> None:
    """Load one result of each test in one of the jobs; one in twenty failed."""
    await store.ensure_repository(WIDGETS)
    now = utc_now()
    for begin in range(0, tests, _BATCH):
        written = {}
        for place, job in enumerate(JOBS):
            run = make_run(f"{begin}", job=job)
            written[run] = [
                execution
                for number in range(begin + place, min(tests, begin + _BATCH), len(JOBS))
                for execution in make_executions(
                    run,
                    [(f"tests.test_{number}_widgets", _conclude(number // len(JOBS)))],
                    now,
                    filepath=_file_of(number),
                )
            ]
        await store.write_results(WIDGETS, written)
    await store.refresh_tests(now)


def _file_of(number: int) -> str:
    file = number // _TESTS_A_FILE
    return f"tests/area_{file % 997}/test_{file}.py"


def _conclude(number: int) -> Conclusion:
    return Conclusion.FAILED if number % _FAILS == 0 else Conclusion.PASSED


async def _measure(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median of several calls in milliseconds."""
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        await work()
        times.append(1_000 * (time.perf_counter() - began))
    return statistics.median(times)


async def _measure_groups(store: Store) -> None:
    owners = read_owners(RULES)
    for by in Grouping:
        found = _owners_of(owners) if by is Grouping.OWNER else find_directory
        took = await _measure(partial(store.group_tests, WIDGETS, by, MOST_GROUPS, found))
        print(f"groups by {by.value}: {took:.0f} ms")


def _owners_of(owners: Owners) -> FindValues:
    return lambda filepath, _: owners.find(filepath, lambda: None)


async def _measure_searches(store: Store) -> None:
    for sort in TestSort:
        by_name = TestQuery(WIDGETS, ("*1_widgets*",), sort)
        broken = TestQuery(WIDGETS, ("*",), sort, health=(HealthStatus.BROKEN,))
        one, other = [
            await _measure(partial(store.search_tests, query, Anchor(), PER_PAGE))
            for query in (by_name, broken)
        ]
        everything = TestQuery(WIDGETS, ("*",), sort)
        anchor: Anchor[IdentityKey] = Anchor()
        for _ in range(0, DEEP, STEP):
            page = await store.search_tests(everything, anchor, STEP)
            anchor = Anchor(page.rows[-1].key)
        first, deep = [
            await _measure(partial(store.search_tests, everything, at, PER_PAGE))
            for at in (Anchor(), anchor)
        ]
        print(
            f"{sort.value}: by name {one:.2f} ms, broken {other:.2f} ms; "
            f"page 1 {first:.2f} ms, page 601 {deep:.2f} ms"
        )


async def main(tests: int) -> None:
    url = os.environ.get("ELASTICSEARCH_URL")
    with new_folder() if url is None else new_indices(url) as place:
        store = await open_store(place)
        try:
            began = time.perf_counter()
            await load(store, tests)
            print(f"loaded {tests:,} tests in {time.perf_counter() - began:.0f} s")
            await _measure_groups(store)
            await _measure_searches(store)
        finally:
            await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else TESTS))
