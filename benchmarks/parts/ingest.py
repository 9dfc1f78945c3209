"""The speed of loading events and executions into a store, compared with parsing alone.

Executions are of new tests, each with one, or all reports have the same tests.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from benchmarks.data.generated import EventMaker
from benchmarks.data.input import CASES_A_REPORT, event_text, write_reports
from benchmarks.data.sizes import Size
from benchmarks.load_reports import Preparing
from benchmarks.load_targets import EVENTS, NEW_TESTS, PLAINLY, SAME_TESTS
from benchmarks.parts import plain_bulk
from benchmarks.results import Speed
from benchmarks.running.new_stores import NewPlace
from indexing.clocks import utc_now
from indexing.ingest.events import ingest_events
from indexing.ingest.junit import ExecutionSink, ReportRequest, ingest_reports
from indexing.ingest.lines import Line, split_lines
from indexing.models.events import StoredEvent
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import EventOutcome, Writer
from service.cli.garbage_collection import collecting_rarely

READING: Final = "reading and checking alone"

_ROUNDS: Final = 3

# Loads all data of one kind into the given sink.
Load = Callable[[object], Awaitable[None]]
# Runs one way of loading; returns its seconds.
Way = Callable[[], Awaitable[float]]


class Discarding:
    """The part of a writer that events need; stores nothing."""

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        return Repository(name)

    async def write_events(self, events: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        return [EventOutcome.WRITTEN] * len(events)


def measure_ingest(
    size: Size, places: Mapping[str, NewPlace], elasticsearch_url: str | None
) -> list[Speed]:
    """Measure each kind: parsing alone, loading into each kind of new store, a plain load."""
    # As the commands do.
    with collecting_rarely():
        return asyncio.run(_measure(size, places, elasticsearch_url))


async def _measure(
    size: Size, places: Mapping[str, NewPlace], elasticsearch_url: str | None
) -> list[Speed]:
    speeds = await _measure_events(size, places, elasticsearch_url)
    for kind in (NEW_TESTS, SAME_TESTS):
        with tempfile.TemporaryDirectory() as folder:
            reports = write_reports(
                Path(folder), size.ingest_executions, same_tests=kind == SAME_TESTS
            )
            speeds += await _measure_reports(kind, reports, places, elasticsearch_url)
    return speeds


async def _measure_events(
    size: Size, places: Mapping[str, NewPlace], elasticsearch_url: str | None
) -> list[Speed]:
    count = size.ingest_events
    lines = list(split_lines(event_text(count)))
    ways = _ways(partial(_load_events, lines=lines), Discarding, places)
    if elasticsearch_url is not None:
        maker = EventMaker()
        made = [maker.make(number, count) for number in range(count)]
        ways[PLAINLY] = partial(plain_bulk.time_events, elasticsearch_url, made)
    return await _speeds(EVENTS, len(lines), ways)


async def _measure_reports(
    kind: str,
    reports: Sequence[ReportRequest],
    places: Mapping[str, NewPlace],
    elasticsearch_url: str | None,
) -> list[Speed]:
    load = partial(_load_reports, reports=reports)
    ways = _ways(load, Preparing, places)
    if elasticsearch_url is not None:
        prepared = Preparing()
        await load(prepared)
        ways[PLAINLY] = partial(plain_bulk.time_executions, elasticsearch_url, prepared.batches)
    return await _speeds(kind, len(reports) * CASES_A_REPORT, ways)


def _ways(
    load: Load, nowhere: Callable[[], object], places: Mapping[str, NewPlace]
) -> dict[str, Way]:
    ways: dict[str, Way] = {READING: lambda: _timed(load, nowhere())}
    for name, new_place in places.items():
        ways[name] = partial(_timed_over_new, new_place, load)
    return ways


async def _speeds(kind: str, count: int, ways: Mapping[str, Way]) -> list[Speed]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    # In turn, so that other load on the machine hits all of them.
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            seconds[name].append(await way())
    # The best of a few: other load only ever slows a run down.
    found = [Speed(kind, name, count / min(taken)) for name, taken in seconds.items()]
    for speed in found:
        print(f"  {kind:10} {speed.way:30} {speed.per_second:10,.0f}/s", file=sys.stderr)
    return found


async def _load_events(sink: object, *, lines: Sequence[Line]) -> None:
    # This load calls only the two methods of a writer that `Discarding` has.
    count = await ingest_events(
        cast(Writer, sink), lines, source="generated", refuse=print, clock=utc_now
    )
    if count.written != len(lines):
        raise RuntimeError(f"{count.written} of {len(lines)} events were written")


async def _load_reports(sink: object, *, reports: Sequence[ReportRequest]) -> None:
    await ingest_reports(cast(ExecutionSink, sink), reports, refuse=print, clock=utc_now)


async def _timed(load: Load, sink: object) -> float:
    start = time.perf_counter()
    await load(sink)
    return time.perf_counter() - start


async def _timed_over_new(new_place: NewPlace, load: Load) -> float:
    with new_place() as place:
        store = await open_store(place)
        try:
            return await _timed(load, store)
        finally:
            await store.close()
