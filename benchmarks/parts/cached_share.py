"""How many requests are answered from the cache while reports of other tests arrive.

A service gets reports of the same repository, one after the other. Meanwhile a client repeats
requests for what these reports do not change: details of other tests, and the quarantines. The
service counts the values that it had to read from its store for that.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.data.generated import MEASURED, name_of, quarantine_of
from benchmarks.data.loading import make_owner_key
from benchmarks.data.sizes import Size
from benchmarks.results import CachedShare
from benchmarks.running.cores import available_cores
from benchmarks.running.new_stores import NewPlace
from benchmarks.running.processes import HOST, Launch, Running, free_port, running
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.keys import Scope
from indexing.store import open_store
from service.cli.upload import open_upload
from tests.places import Place, settings_of

# The tests that are read, and those of each report.
READ: Final = 200
LOADED: Final = 200
_QUARANTINES: Final = 10
_POLL_SECONDS: Final = 0.01
_FIRST_SECONDS: Final = 0.1
_STORE_READS: Final = re.compile(
    r'^mergewatch_cache_reads_total\{[^}]*"store"[^}]*\} (\S+)$', re.MULTILINE
)


def measure_cached_shares(size: Size, places: Mapping[str, NewPlace]) -> list[CachedShare]:
    """Measure over each kind of store."""
    found = []
    for store, new_place in places.items():
        with new_place() as place, tempfile.TemporaryDirectory() as logs:
            key = asyncio.run(_fill(place))
            port = free_port()
            command = (str(Path(sys.executable).with_name("mergewatch")), "serve")
            settings = {"MERGEWATCH_INGEST": "true", "MERGEWATCH_METRICS": "true"}
            launch = Launch(
                (*command, "--bind", HOST, "--port", str(port)),
                "/health/ready",
                settings_of(place) | settings,
            )
            with running(launch, port, Path(logs) / "serve.log", available_cores()) as service:
                found.append(asyncio.run(_measure(store, service, key, size.share_seconds)))
        print(
            f"  {store:20} {found[-1].share:.3f} of {found[-1].requests:,} requests from the"
            f" cache, {found[-1].loads} reports meanwhile",
            file=sys.stderr,
        )
    return found


async def _fill(place: Place) -> str:
    """Store a result of each test, and quarantines; return a key for everything."""
    key, record = make_owner_key(Scope.ADMIN)
    store = await open_store(place)
    try:
        await store.add_key(record)
        await store.ensure_repository(MEASURED)
        run, executions = _report(0, range(READ + LOADED))
        await store.write_results(MEASURED, {run: executions})
        await store.refresh_tests(datetime.now(UTC))
        for number in range(_QUARANTINES):
            await store.add_quarantine(MEASURED, quarantine_of(number), datetime.now(UTC))
    finally:
        await store.close()
    return key


def _report(number: int, tests: Sequence[int]) -> tuple[Run, list[Execution]]:
    """Return one report of these tests; none of them ever changes its health."""
    run = Run(f"{number}", 1, "ci", "unit", "main", f"{number:040x}")
    finished_at = datetime.now(UTC) - timedelta(hours=1) + timedelta(seconds=number)
    return run, [
        Execution(
            id=hashlib.blake2b(f"{number} {test}".encode(), digest_size=16).digest(),
            test_name=name_of(test),
            conclusion=Conclusion.PASSED,
            finished_at=finished_at,
        )
        for test in tests
    ]


async def _measure(store: str, service: Running, key: str, seconds: float) -> CachedShare:
    repository = f"/v1/ci/{MEASURED.owner}/repositories/{MEASURED.name}"
    paths = [f"{repository}/tests/{derive_test_id(MEASURED, name_of(n))}" for n in range(READ)]
    paths.append(f"{repository}/quarantines")
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(service.address, headers=headers) as client:
        # A process does not know what others have written until its own first write.
        await _load(service, key, time.monotonic() + _FIRST_SECONDS)
        for path in paths:
            await _read(client, path)
        before = await _count_store_reads(client)
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(_load(service, key, end))
            polling = group.create_task(_poll(client, paths, end))
        reads = await _count_store_reads(client) - before
        return CachedShare(store, polling.result(), reads, loading.result())


async def _poll(client: aiohttp.ClientSession, paths: Sequence[str], end: float) -> int:
    """Read the paths in turn until `end`; return how many requests that took."""
    requests = 0
    while time.monotonic() < end:
        await _read(client, paths[requests % len(paths)])
        requests += 1
        await asyncio.sleep(_POLL_SECONDS)
    return requests


async def _read(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as response:
        response.raise_for_status()
        await response.read()


async def _count_store_reads(client: aiohttp.ClientSession) -> int:
    async with client.get("/metrics") as response:
        found = _STORE_READS.search(await response.text())
    if found is None:
        raise RuntimeError("the service does not count its reads of the store")
    return int(float(found[1]))


async def _load(service: Running, key: str, end: float) -> int:
    """Upload reports until `end`; return how many."""
    loads = 0
    refused: list[str] = []
    async with open_upload(service.address, key, refuse=refused.append) as sink:
        while time.monotonic() < end:
            loads += 1
            run, executions = _report(loads, range(READ, READ + LOADED))
            await sink.write_results(MEASURED, {run: executions})
            if refused:
                raise RuntimeError(f"a report was refused: {refused[0]}")
    return loads
