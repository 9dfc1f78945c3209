"""The cost of loading 151 real reports, compared with the least possible: `make bench`.

The least is parsing them with lxml alone, plus storing prepared executions. All three are timed in
turn in one process, and the best of a few rounds counts: on a machine with other load, single times
vary, but the ratio of the best times is stable.
"""

from __future__ import annotations

import asyncio
import gzip
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from lxml import etree

from benchmarks.load_targets import REPORTS_RATIO
from indexing.clocks import utc_now
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import ReportRequest, ingest_reports
from indexing.ingest.manifest import read_manifest
from indexing.models.executions import Execution, Run
from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import ExecutionCount, Steps, Store

SAMPLES: Final = Path(__file__).parents[1] / "tests" / "samples" / "lammps"
REPOSITORY: Final = RepositoryName("lammps", "lammps")
ROUNDS: Final = 3

Batch = tuple[Run, Sequence[Execution]]


class Preparing:
    """A sink that only collects what a store would get."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    async def ensure_repository(self, name: RepositoryName) -> None:
        """Do nothing: every repository is known here."""

    async def write_results(
        self,
        repository: RepositoryName,  # noqa: ARG002 - the protocol names it
        results: Mapping[Run, Sequence[Execution]],
    ) -> ExecutionCount:
        self.batches.extend(results.items())
        return ExecutionCount(sum(map(len, results.values())), 0)

    async def refresh_tests(
        self,
        now: datetime,  # noqa: ARG002
        progress: Steps | None,  # noqa: ARG002
        repository: RepositoryName | None,  # noqa: ARG002
    ) -> int:
        return 0


def read_requests() -> list[ReportRequest]:
    found = list(read_manifest(SAMPLES / "manifest.csv", REPOSITORY, clock=utc_now))
    return [request for request in found if isinstance(request, ReportRequest)]


def read_with_lxml(requests: Sequence[ReportRequest]) -> int:
    """Parse every report and visit every case, in the plainest way."""
    failed = 0
    for request in requests:
        with gzip.open(request.path) as stream:
            for case in etree.fromstring(stream.read()).iter("testcase"):
                case.get("classname"), case.get("name"), case.get("time")
                failed += any(child.tag in ("failure", "error") for child in case)
    return failed


async def write_prepared(store: Store, batches: Sequence[Batch]) -> None:
    for run, executions in batches:
        await store.write_results(REPOSITORY, {run: executions})
    await store.refresh_tests(utc_now())


async def load(store: Store, requests: Sequence[ReportRequest]) -> IngestCount:
    return await ingest_reports(store, requests, refuse=print, clock=utc_now)


async def time_over_a_new_store(work: Callable[[Store], Awaitable[object]]) -> float:
    """Return the seconds of the work over a store with only the repository in it."""
    with tempfile.TemporaryDirectory() as folder:
        store = await open_store(Path(folder))
        try:
            await store.set_repository(
                REPOSITORY, RepositoryChange(default_branch="develop"), utc_now()
            )
            start = time.perf_counter()
            await work(store)
            return time.perf_counter() - start
        finally:
            await store.close()


def time_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


async def measure() -> float:
    """Print the figures; return the ratio."""
    requests = read_requests()
    preparing = Preparing()
    count = await ingest_reports(preparing, requests, refuse=print, clock=utc_now)
    reading, writing, loading = [], [], []
    for _ in range(ROUNDS):
        reading.append(time_of(lambda: read_with_lxml(requests)))
        writing.append(
            await time_over_a_new_store(lambda store: write_prepared(store, preparing.batches))
        )
        loading.append(await time_over_a_new_store(lambda store: load(store, requests)))
    least = min(reading) + min(writing)
    ratio = min(loading) / least
    print(f"{len(requests)} reports, {count.read:,} results, best of {ROUNDS}")
    print(f"  reading with lxml alone   {min(reading):7.2f} s")
    print(f"  writing what was prepared {min(writing):7.2f} s")
    print(f"  loading                   {min(loading):7.2f} s")
    verdict = "holds" if ratio <= REPORTS_RATIO else "DOES NOT HOLD"
    print(f"  loading : the least       {ratio:7.2f}   at most {REPORTS_RATIO:.1f}: {verdict}")
    return ratio


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(measure()) <= REPORTS_RATIO else 1)
