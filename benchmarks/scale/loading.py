"""Loads a store in a separate process, so that its memory is that of the load alone."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import orjson

from benchmarks.scale.identities import LARGEST, batches_of, events_of, sizes_of
from indexing.clocks import utc_now
from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import ReportRequest, ingest_reports
from indexing.ingest.manifest import read_manifest
from indexing.models.repositories import RepositoryChange
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.interface import Store

LAMMPS: Final = RepositoryName("lammps", "lammps")
_MANIFEST: Final = Path(__file__).parents[2] / "tests" / "samples" / "lammps" / "manifest.csv"
_EVENTS_A_CALL: Final = 1_000
_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Load:
    """The amount loaded, the time it took, and the peak memory of the process.

    `early` is the peak memory after the first part of the load.
    """

    rows: int
    seconds: float
    most_bytes: int
    early_bytes: int


class _Loading(Protocol):
    async def __call__(self, store: Store, amount: int) -> tuple[int, int]:
        """Load; return the rows written and the peak memory after the first part."""


async def _load_identities(store: Store, amount: int) -> tuple[int, int]:
    written = early = 0
    began = time.monotonic()
    for repository, tests in sizes_of(amount).items():
        await store.ensure_repository(repository)
        for batch in batches_of(repository, tests):
            count = await store.write_results(batch.repository, {batch.run: batch.executions})
            written += count.written
        await store.refresh_tests(utc_now(), repository=repository)
        # The largest repository comes first: a tenth of all.
        early = early or most_memory()
        rate = written / (time.monotonic() - began)
        print(f"{written:,} identities, {rate:,.0f} a second", file=sys.stderr)
    return written, early


async def _load_events(store: Store, amount: int) -> tuple[int, int]:
    await store.ensure_repository(LARGEST)
    events = events_of(LARGEST, amount)
    early = 0
    while batch := list(islice(events, _EVENTS_A_CALL)):
        await store.write_events(batch)
        early = early or most_memory()
    return amount, early


async def _load_reports(store: Store, amount: int) -> tuple[int, int]:
    await store.set_repository(LAMMPS, RepositoryChange(default_branch="develop"), utc_now())
    found = [
        r for r in read_manifest(_MANIFEST, LAMMPS, clock=utc_now) if isinstance(r, ReportRequest)
    ]
    half = amount // 2
    first = await _ingest(store, found[:half])
    early = most_memory()
    rest = await _ingest(store, found[half:amount])
    return first.written + rest.written, early


async def _ingest(store: Store, requests: Sequence[ReportRequest]) -> IngestCount:
    return await ingest_reports(store, requests, refuse=print, clock=utc_now)


_LOADS: Final[dict[str, _Loading]] = {
    "identities": _load_identities,
    "events": _load_events,
    "reports": _load_reports,
}


def load(what: str, amount: int, url: str, prefix: str) -> Load:
    """Load that amount in another process and wait for it."""
    command = [sys.executable, "-m", "benchmarks.scale.loading", what, str(amount), url, prefix]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    return Load(**orjson.loads(done.stdout))


def most_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _main(what: str, amount: int, url: str, prefix: str) -> Load:
    store = await open_store(ElasticsearchPlace((url,), prefix))
    try:
        began = time.monotonic()
        rows, early = await _LOADS[what](store, amount)
        return Load(rows, time.monotonic() - began, most_memory(), early)
    finally:
        await store.close()


if __name__ == "__main__":
    told = asyncio.run(_main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]))
    print(orjson.dumps(asdict(told)).decode())
