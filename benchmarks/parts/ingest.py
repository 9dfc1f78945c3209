"""How fast events and executions get into a store, beside reading and checking them alone."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from benchmarks.data.input import CASES_A_REPORT, event_text, write_reports
from benchmarks.data.sizes import Size
from benchmarks.load_reports import Preparing
from benchmarks.results import Speed
from indexing.ingest.events import ingest_events
from indexing.ingest.junit import ExecutionSink, ReportRequest, ingest_reports
from indexing.ingest.lines import Line, split_lines
from indexing.models.events import StoredEvent
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store.interface import EventOutcome, Store, Writer

EVENTS: Final = "events"
EXECUTIONS: Final = "executions"
READING: Final = "reading and checking alone"

_ROUNDS: Final = 3

# Opens a new and empty store; the folder is its own.
OpenNew = Callable[[Path], Awaitable[Store]]


class Discarding:
    """The part of a writer that events need; keeps nothing."""

    async def ensure_repository(self, name: RepositoryName) -> Repository:
        return Repository(name)

    async def write_events(self, events: Sequence[StoredEvent]) -> Sequence[EventOutcome]:
        return [EventOutcome.WRITTEN] * len(events)


def measure_ingest(size: Size, stores: Mapping[str, OpenNew]) -> list[Speed]:
    """The speeds of both kinds: reading alone, then into a new store of each name."""
    with tempfile.TemporaryDirectory() as folder:
        lines = list(split_lines(event_text(size.ingest_events)))
        reports = write_reports(Path(folder), size.ingest_executions)
        return asyncio.run(_measure(lines, reports, stores))


async def _measure(
    lines: Sequence[Line], reports: Sequence[ReportRequest], stores: Mapping[str, OpenNew]
) -> list[Speed]:
    found = []
    for kind, count, load, nowhere in (
        (EVENTS, len(lines), lambda sink: _load_events(sink, lines), Discarding),
        (
            EXECUTIONS,
            len(reports) * CASES_A_REPORT,
            lambda sink: _load_reports(sink, reports),
            Preparing,
        ),
    ):
        seconds: dict[str, list[float]] = {way: [] for way in (READING, *stores)}
        # In turn, so that what else the machine does hits all of them.
        for _ in range(_ROUNDS):
            seconds[READING].append(await _timed(load, nowhere()))
            for way, open_new in stores.items():
                seconds[way].append(await _timed_over_new(open_new, load))
        for way, all_seconds in seconds.items():
            found.append(Speed(kind, way, count / min(all_seconds)))
            print(f"  {kind:10} {way:28} {found[-1].per_second:10,.0f}/s", file=sys.stderr)
    return found


async def _load_events(sink: object, lines: Sequence[Line]) -> None:
    # Of a writer, this load calls the two methods that `Discarding` has.
    count = await ingest_events(cast(Writer, sink), lines, source="made up", refuse=print)
    if count.written != len(lines):
        raise RuntimeError(f"{count.written} of {len(lines)} events were written")


async def _load_reports(sink: object, reports: Sequence[ReportRequest]) -> None:
    await ingest_reports(
        cast(ExecutionSink, sink), reports, refuse=print, clock=lambda: datetime.now(UTC)
    )


async def _timed(load: Callable[[object], Awaitable[None]], sink: object) -> float:
    start = time.perf_counter()
    await load(sink)
    return time.perf_counter() - start


async def _timed_over_new(open_new: OpenNew, load: Callable[[object], Awaitable[None]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = await open_new(Path(folder))
        try:
            return await _timed(load, store)
        finally:
            await store.close()
