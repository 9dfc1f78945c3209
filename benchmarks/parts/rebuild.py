"""Rebuilds of a whole store while the details of its tests are read; both stores side by side."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Mapping
from typing import Final

from benchmarks.data.histories import END, REPOSITORY, fill
from benchmarks.data.sizes import Size
from benchmarks.results import Rebuild
from benchmarks.running.new_stores import NewPlace
from indexing.identifiers import derive_test_id
from indexing.store import open_store
from indexing.store.interface import Store
from service.cli.garbage_collection import collecting_rarely

# The executions of each test.
DEPTH: Final = 30
_REBUILDS: Final = 3
# As a dashboard with many tabs.
_READS_A_SECOND: Final = 20


def measure_rebuilds(size: Size, places: Mapping[str, NewPlace]) -> list[Rebuild]:
    """Return the fastest of a few rebuilds over each kind of store."""
    # As the commands do.
    with collecting_rarely():
        return asyncio.run(_measure(size, places))


async def _measure(size: Size, places: Mapping[str, NewPlace]) -> list[Rebuild]:
    found = []
    for name, new_place in places.items():
        with new_place() as place:
            store, reader = await open_store(place), await open_store(place)
            try:
                await store.ensure_repository(REPOSITORY)
                await fill(store, size.rebuilt_tests, DEPTH)
                rebuilds = [await _rebuild(name, store, reader) for _ in range(_REBUILDS)]
            finally:
                await reader.close()
                await store.close()
        found.append(max(rebuilds, key=lambda each: each.per_second))
        for each in rebuilds:
            print(
                f"  {each.tests:6,} tests {name:20} {each.per_second:8,.0f} tests/s rebuilt"
                f" {each.reads:6,} reads, the slowest {each.slowest_read * 1000:.0f} ms",
                file=sys.stderr,
            )
    return found


async def _rebuild(name: str, store: Store, reader: Store) -> Rebuild:
    """Rebuild the store while another connection to it reads."""
    reads: list[float] = []
    reading = asyncio.create_task(_read(reader, reads))
    began = time.perf_counter()
    tests = await store.rebuild(END)
    seconds = time.perf_counter() - began
    reading.cancel()
    await asyncio.wait([reading])
    return Rebuild(name, DEPTH, tests, tests / seconds, len(reads), max(reads))


async def _read(store: Store, reads: list[float]) -> None:
    """Read one test after the other, and note the seconds of each read."""
    for number in itertools.count():
        began = time.perf_counter()
        await store.get_test(REPOSITORY, derive_test_id(REPOSITORY, f"tests/unit/test_{number}"))
        reads.append(time.perf_counter() - began)
        await asyncio.sleep(1 / _READS_A_SECOND)
