"""Small writes into Elasticsearch: calls with one event each, and documents for each execution.

Compared in one run: calls one after the other, calls at once, and the same documents in one bulk by
the official helper.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from elasticsearch import AsyncElasticsearch

from benchmarks.data.generated import MEASURED, EventMaker, name_of
from benchmarks.parts.plain_bulk import time_events
from benchmarks.results import SmallWrites
from indexing.models.events import EventQuery, StoredEvent
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.paging import Anchor
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.interface import EventOutcome, Store

CALLS: Final = 600
AT_ONCE: Final = 32
# Fewer calls, because each takes as long as a refresh.
CALLS_ALONE: Final = 60

TESTS: Final = 500
RUNS: Final = 6


def measure_small_writes(url: str) -> SmallWrites:
    """Measure into a new store, which is deleted afterwards."""
    measured = asyncio.run(_measure(url))
    print(
        f"  calls of one event: {measured.alone_per_second:,.0f}/s one after the other,"
        f" {measured.at_once_per_second:,.0f}/s {AT_ONCE} at once; plain bulk"
        f" {measured.plain_per_second:,.0f}/s; slowest until visible"
        f" {measured.slowest_seconds:.2f} s\n"
        f"  documents written for each execution: {measured.written_per_execution:.2f},"
        f" loaded again {measured.written_again_per_execution:.2f}",
        file=sys.stderr,
    )
    return measured


async def _measure(url: str) -> SmallWrites:
    prefix = f"bench-small-{time.time_ns()}"
    async with AsyncElasticsearch(url, request_timeout=60) as client:
        store = await open_store(ElasticsearchPlace((url,), prefix))
        try:
            await store.ensure_repository(MEASURED)
            events = _make_events(CALLS_ALONE + CALLS + 1)
            # Not measured, because the first write creates the slice.
            await _write(store, events[0])
            alone = events[1 : CALLS_ALONE + 1]
            start = time.perf_counter()
            for event in alone:
                await _write(store, event)
            alone_per_second = len(alone) / (time.perf_counter() - start)
            rest = events[CALLS_ALONE + 1 :]
            start = time.perf_counter()
            slowest = await _write_at_once(store, rest)
            at_once_per_second = len(rest) / (time.perf_counter() - start)
            await _check_visible(store, len(events))
            first, again = await _count_written(client, store, prefix)
            return SmallWrites(
                alone_per_second,
                at_once_per_second,
                len(rest) / await time_events(url, rest),
                slowest,
                first,
                again,
            )
        finally:
            await store.close()
            await client.indices.delete(index=f"{prefix}-*")


def _make_events(count: int) -> list[StoredEvent]:
    maker, now = EventMaker(), datetime.now(UTC)
    made = [maker.make(number, count) for number in range(count)]
    # All in the newest slice, as events of running automation are.
    return [
        replace(event, key=replace(event.key, received_at=now - timedelta(milliseconds=number)))
        for number, event in enumerate(made)
    ]


async def _write(store: Store, event: StoredEvent) -> None:
    # What an upload of one event calls.
    await store.ensure_repository(event.repository)
    if await store.write_events([event]) != [EventOutcome.WRITTEN]:
        raise RuntimeError("an event was not written")


async def _write_at_once(store: Store, events: Sequence[StoredEvent]) -> float:
    """Write all events; return the seconds of the slowest call, which ends when it is visible."""
    waiting = iter(events)
    slowest = 0.0

    async def work() -> None:
        nonlocal slowest
        for event in waiting:
            start = time.perf_counter()
            await _write(store, event)
            slowest = max(slowest, time.perf_counter() - start)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return slowest


async def _check_visible(store: Store, count: int) -> None:
    now = datetime.now(UTC)
    query = EventQuery(MEASURED, now - timedelta(days=1), now + timedelta(days=1))
    rows = (await store.list_events(query, Anchor(), 2 * count)).rows
    if len(rows) != count:
        raise RuntimeError(f"{len(rows)} of {count} events are visible")


async def _count_written(
    client: AsyncElasticsearch, store: Store, prefix: str
) -> tuple[float, float]:
    """Return the documents written for each execution: of later runs, and of their repetition."""
    await _load(store, 0)
    counts = [await _written(client, prefix)]
    for numbers in (range(1, RUNS), range(1, RUNS)):
        for number in numbers:
            await _load(store, number)
        counts.append(await _written(client, prefix))
    executions = TESTS * (RUNS - 1)
    return (counts[1] - counts[0]) / executions, (counts[2] - counts[1]) / executions


async def _load(store: Store, number: int) -> None:
    finished_at = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(hours=number)
    run = Run(f"{number}", 1, "ci", "linux", "main", f"{number:040x}")
    executions = [
        Execution(
            id=hashlib.blake2b(f"{number} {test}".encode(), digest_size=16).digest(),
            test_name=name_of(test),
            conclusion=Conclusion.PASSED,
            finished_at=finished_at,
        )
        for test in range(TESTS)
    ]
    await store.write_results(MEASURED, {run: executions})
    await store.refresh_tests(finished_at, repository=MEASURED)


async def _written(client: AsyncElasticsearch, prefix: str) -> int:
    stats = await client.indices.stats(index=f"{prefix}-*", metric="indexing")
    indexing = stats["_all"]["primaries"]["indexing"]
    return int(indexing["index_total"] + indexing["delete_total"])
