"""Times counts of a large event log: `python -m benchmarks.aggregates`, `--sqlite` for SQLite.

It loads a million events of 30 days and counts the days, as the service does in the background.
Then it requests each aggregate as a process that has just started: it remembers nothing, and the
node's caches are cleared. *Took* is the time that the cluster states for its searches. The data
stays in `.bench/` for the next run. A node that has just started takes several times the CPU time
until its code is compiled, so all are requested some times before. On SQLite the process does all
of the work.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.data.generated import EventMaker, with_pull
from benchmarks.data.loading import FOLDER, Progress
from benchmarks.running.requests_to_node import answers_seen
from benchmarks.running.rest import wait_until_at_rest
from indexing.models.event_aggregates import choose_bars
from indexing.models.events import EventQuery, Outcome
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, open_store
from indexing.store.interface import Store
from service.cli.garbage_collection import collecting_rarely
from tests.servers.elasticsearch import Node

EVENTS: Final = 1_000_000
ROUNDS: Final = 9
WARM_UP_ROUNDS: Final = 12
# The most milliseconds that the store may take for one aggregate.
LIMIT: Final = 30

_REPOSITORY: Final = RepositoryName("acme", "monorepo")
# Shares the shards of the repository that is measured.
_OTHER: Final = RepositoryName("acme", "elsewhere")
_PREFIX: Final = "aggregates"
# Two months, so that a range reads two indices of each.
_END: Final = datetime(2026, 11, 16, tzinfo=UTC)
_BEGIN: Final = _END - timedelta(days=30)
_EVENTS_A_PULL: Final = 13
_EVENTS_A_CALL: Final = 2_000
_PROC: Final = Path("/proc")

Place = Path | ElasticsearchPlace


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds of one aggregate: of the node's own clock, of its processor, of the process."""

    took: float
    node_cpu: float
    process_cpu: float


async def load(store: Store, events: int) -> None:
    """Fill an empty store: a fifth as many events belong to another repository."""
    for name, count in ((_REPOSITORY, events), (_OTHER, events // 5)):
        await store.ensure_repository(name)
        maker = EventMaker(name, _BEGIN, _END)
        say = Progress(f"events of {name}", count)
        for begin in range(0, count, _EVENTS_A_CALL):
            numbers = range(begin, min(count, begin + _EVENTS_A_CALL))
            await store.write_events(
                [with_pull(maker.make(n, count), 1 + n // _EVENTS_A_PULL) for n in numbers]
            )
            say(len(numbers))


def list_queries(types: Sequence[str], triggers: Sequence[str]) -> Iterator[tuple[str, EventQuery]]:
    """Yield what dashboards ask, each with its name."""
    every = EventQuery(_REPOSITORY, _BEGIN + timedelta(hours=5), _END - timedelta(hours=7))
    succeeded = replace(every, outcomes=(Outcome.SUCCESS,))
    of_main = replace(every, base_ref="main")
    some_types, one_type = tuple(types[::2]), tuple(types[:1])
    yield "no filter", every
    yield "an outcome", succeeded
    yield "all outcomes but one", replace(every, outcomes_excluded=(Outcome.SUCCESS,))
    yield "a base branch", of_main
    yield "one type", replace(every, event_types=one_type)
    yield "all types but one", replace(every, event_types_excluded=one_type)
    yield "every other type", replace(every, event_types=some_types)
    yield "every other trigger", replace(every, triggers=tuple(triggers[::2]))
    yield "one pull request", replace(every, pull_requests=(20_000,))
    yield "all pull requests but one", replace(every, pull_requests_excluded=(20_000,))
    yield "an outcome and a base branch", replace(succeeded, base_ref="main")
    yield (
        "a base branch, and every other type",
        replace(of_main, event_types=some_types),
    )
    yield (
        "an outcome, a base branch, not one type, not one trigger",
        replace(
            succeeded,
            base_ref="main",
            event_types_excluded=one_type,
            triggers_excluded=tuple(triggers[:1]),
        ),
    )
    yield (
        "a base branch, not one type, not one trigger, not one pull request",
        replace(
            of_main,
            event_types_excluded=one_type,
            triggers_excluded=tuple(triggers[:1]),
            pull_requests_excluded=(20_000,),
        ),
    )


class Took:
    """Adds up what the cluster says that its searches took, in milliseconds."""

    def __init__(self) -> None:
        self.milliseconds = 0

    def see(self, answer: Any) -> None:
        """Add what one answer says."""
        if isinstance(answer, dict):
            self.milliseconds += answer.get("took", 0)


def _cpu_milliseconds(node: Node | None) -> float:
    """Return the CPU time of all threads of a node, which are taken to live on."""
    if node is None:
        return 0
    folder = _PROC / str(node.process.pid) / "task"
    texts = (file.read_text() for file in folder.glob("*/schedstat"))
    return sum(int(text.split()[0]) for text in texts) / 1_000_000


async def _measure_one(
    place: Place, query: EventQuery, node: Node | None, client: aiohttp.ClientSession
) -> tuple[int, Figures]:
    bars = choose_bars(query.received_from, query.received_to)
    store = await open_store(place)
    try:
        # Opens the connections and reads what every request of a running process knows.
        await store.aggregate_events(replace(query, repository=_OTHER), bars)
        if node is not None:
            clear = f"{node.url}/{_PREFIX}-*/_cache/clear?query=true&request=true"
            async with client.post(clear) as response:
                response.raise_for_status()
            wait_until_at_rest(node.process.pid)
        took = Took()
        cpu, own = _cpu_milliseconds(node), time.process_time()
        with answers_seen(took.see):
            found = await store.aggregate_events(query, bars)
        own = 1_000 * (time.process_time() - own)
        figures = Figures(took.milliseconds, _cpu_milliseconds(node) - cpu, own)
        return found.total, figures
    finally:
        await store.close()


async def _measure(place: Place, node: Node | None, rounds: int) -> bool:
    store = await open_store(place)
    try:
        bars = choose_bars(_BEGIN, _END)
        whole = await store.aggregate_events(EventQuery(_REPOSITORY, _BEGIN, _END), bars)
    finally:
        await store.close()
    queries = [
        *list_queries(
            sorted(each.value for each in whole.by_event_type),
            sorted(each.value for each in whole.by_trigger),
        )
    ]
    print(f"{'milliseconds, medians':<68} {'events':>9} {'took':>6} {'node':>6} {'own':>6}")
    holds = True
    async with aiohttp.ClientSession() as client:
        for _ in range(WARM_UP_ROUNDS):
            for _, query in queries:
                await _measure_one(place, query, node, client)
        for name, query in queries:
            measured = [await _measure_one(place, query, node, client) for _ in range(rounds)]
            took, cpu, own = (
                statistics.median(getattr(each, field) for _, each in measured)
                for field in ("took", "node_cpu", "process_cpu")
            )
            of_store = own if node is None else cpu
            verdict = "" if of_store <= LIMIT else "DOES NOT HOLD"
            holds = holds and not verdict
            total = measured[0][0]
            print(f"{name:<68} {total:9,} {took:6.0f} {cpu:6.0f} {own:6.0f}  {verdict}", flush=True)
    return holds


async def _fill(place: Place, events: int) -> None:
    store = await open_store(place)
    try:
        await load(store, events)
    finally:
        await store.close()


async def _count_days(place: Place) -> None:
    """Count the days, unless an earlier run of this version has counted them."""
    store = await open_store(place)
    try:
        began = time.perf_counter()
        while await store.refresh_event_counts(_END + timedelta(days=1)):
            pass
        print(f"counted the days in {time.perf_counter() - began:.0f} s")
    finally:
        await store.close()


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=EVENTS)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--sqlite", action="store_true")
    given = arguments.parse_args()
    kind = "-sqlite" if given.sqlite else ""
    folder = FOLDER / f"aggregates{kind}-{given.events}"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        node: Node | None = None
        place: Place = folder
        if not given.sqlite:
            node = stack.enter_context(Node(folder, heap="1g", quick_start=False))
            place = ElasticsearchPlace((node.url,), _PREFIX)
        note = folder / "loaded"
        if not note.exists():
            asyncio.run(_fill(place, given.events))
            note.touch()
        # As the service does.
        with collecting_rarely():
            asyncio.run(_count_days(place))
            return 0 if asyncio.run(_measure(place, node, given.rounds)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
