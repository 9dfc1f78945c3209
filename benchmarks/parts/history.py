"""The cost of the next report, by how much history its tests have; both stores side by side."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.data.histories import END, REPOSITORY, executions_of, fill, run_of
from benchmarks.data.sizes import Size
from benchmarks.results import History
from benchmarks.running.new_stores import NewPlace
from benchmarks.running.requests_to_node import answers_seen
from indexing.store import open_store
from indexing.store.interface import Store
from service.cli.garbage_collection import collecting_rarely
from tests.places import Place

_REPORTS: Final = 5
# A store is rebuilt this often, or until this many seconds have passed.
_REBUILDS: Final = 5
_LONG_SECONDS: Final = 10.0


class Documents:
    """Counts the documents that requests to Elasticsearch read and write.

    An id that is only looked up, without the document, is not counted.
    """

    def __init__(self) -> None:
        self.read = 0
        self.written = 0

    def see(self, answer: Any) -> None:
        """Count what one answer says."""
        if not isinstance(answer, dict):
            return
        for each in answer.get("responses", [answer]):
            self.read += len(each.get("hits", {}).get("hits", ()))
        self.read += sum(bool(each.get("_source")) for each in answer.get("docs", ()))
        self.read += bool(answer.get("_source"))
        items = answer.get("items", ())
        self.written += sum(
            each.get("status", 500) < 300 for item in items for each in item.values()
        )
        self.written += answer.get("result") in ("created", "updated", "deleted")


def measure_history(size: Size, places: Mapping[str, NewPlace]) -> list[History]:
    """Return the cost at each depth of history, over each kind of store."""
    # As the commands do.
    with collecting_rarely():
        return asyncio.run(_measure(size, places))


async def _measure(size: Size, places: Mapping[str, NewPlace]) -> list[History]:
    found = []
    for depth in size.history_depths:
        for name, new_place in places.items():
            with new_place() as place:
                store = await open_store(place)
                try:
                    await store.ensure_repository(REPOSITORY)
                    found.append(await _measure_one(size, name, depth, store, place))
                finally:
                    await store.close()
            history = found[-1]
            print(
                f"  {depth:6,} a test {name:20} {history.seconds:8.3f} s {history.cpu:8.3f} s CPU"
                f" {history.read:6.2f} read {history.written:6.2f} written"
                f" {history.recomputed:8,.0f} tests/s rebuilt",
                file=sys.stderr,
            )
    return found


async def _measure_one(size: Size, name: str, depth: int, store: Store, place: Place) -> History:
    await fill(store, size.history_tests, depth)
    rebuilt = await _time_rebuild(store)
    documents = Documents()
    seconds, cpu = [], []
    # The first report of an empty store is the only one without history.
    for number in range(_REPORTS if depth else 1):
        run = run_of(f"next-{number}")
        executions = executions_of(size.history_tests, run, END + timedelta(minutes=number), number)
        began, used = time.perf_counter(), time.process_time()
        with answers_seen(documents.see):
            await store.write_results(REPOSITORY, {run: executions})
            await store.refresh_tests(END, None, REPOSITORY)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    loaded = len(seconds) * size.history_tests
    return History(
        store=name,
        depth=depth,
        seconds=min(seconds),
        read=documents.read / loaded,
        written=documents.written / loaded,
        recomputed=size.history_tests / rebuilt if depth else 0.0,
        disk=_size_of(place) / (loaded + depth * size.history_tests),
        cpu=min(cpu),
    )


async def _time_rebuild(store: Store) -> float:
    """Return the seconds of the fastest of a few rebuilds; of one if it takes long.

    A node that has just started compiles the code of a rebuild for longer than it takes.
    """
    seconds: list[float] = []
    while len(seconds) < _REBUILDS and sum(seconds) < _LONG_SECONDS:
        began = time.perf_counter()
        await store.rebuild(END)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _size_of(place: Place) -> int:
    """Return the bytes of a file's folder; those of a node are not asked for."""
    if not isinstance(place, Path):
        return 0
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
