"""The cost of each operation over stores of growing sizes, with one client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.data.generated import MEASURED, repository_elsewhere
from benchmarks.data.loading import read_key
from benchmarks.data.sizes import Size, StoreSize
from benchmarks.parts.bench import Conditions, started
from benchmarks.parts.throughput import NOT_CACHED, measure
from benchmarks.parts.warm_up import warm_up
from benchmarks.requests.operations import BY_NAME, Operation, QueriedRepository
from benchmarks.results import Cost
from benchmarks.running.cores import available_cores, divide
from benchmarks.stacks import OVER_ELASTICSEARCH, REFERENCE, Backends

# Fewer rounds than in a full run: there are many stores, and the question is a factor of ten.
_ROUNDS: Final = 2
_TESTS_ELSEWHERE: Final = 500
# The events of a store with enough pages behind the deep one.
_WITH_DEEP_PAGES: Final = 100_000

EVENTS_SERIES: Final = "all events"
GROWING_SERIES: Final = "in a repository with a tenth of all tests"
STEADY_SERIES: Final = f"in a repository of {_TESTS_ELSEWHERE} tests"

_BY_EVENTS: Final = ("events-10", "events-100", "events-deep")
_BY_IDENTITIES: Final = ("detail", "glob-prefix", "glob-rare", "glob-suffix", "glob-two")

# Fills the stores of that size if needed.
Load = Callable[[StoreSize], Backends]


@dataclass(frozen=True, slots=True)
class Stage:
    """One store, its requests, and the series of its costs."""

    size: int
    store: StoreSize
    queried: QueriedRepository
    series: str
    operations: tuple[Operation, ...]


def stages_of(size: Size) -> Iterator[Stage]:
    """Return all stages, smaller stores first. Pure."""
    by_events = tuple(BY_NAME[name] for name in _BY_EVENTS)
    by_identities = tuple(BY_NAME[name] for name in _BY_IDENTITIES)
    for events in size.growth_events:
        operations = tuple(o for o in by_events if o.page == 1 or events >= _WITH_DEEP_PAGES)
        store = StoreSize(f"events-{events}", tests=1_000, identities=1_000, events=events)
        yield Stage(
            events, store, QueriedRepository(MEASURED, store.tests), EVENTS_SERIES, operations
        )
    for identities in size.growth_identities:
        store = StoreSize(
            f"identities-{identities}",
            tests=identities // 10,
            identities=identities,
            events=1_000,
            tests_elsewhere=_TESTS_ELSEWHERE,
        )
        growing = QueriedRepository(MEASURED, store.tests)
        yield Stage(identities, store, growing, GROWING_SERIES, by_identities)
        steady = QueriedRepository(repository_elsewhere(0), _TESTS_ELSEWHERE)
        yield Stage(identities, store, steady, STEADY_SERIES, by_identities)


def measure_growth(size: Size, load: Load, logs: Path, folders: Sequence[Path]) -> list[Cost]:
    """Return the costs at every stage, over each kind of store.

    `folders` have the files of the servers that hold stores.
    """
    costs = []
    warm: set[Operation] = set()
    fewer = replace(size, rounds=min(size.rounds, _ROUNDS))
    for stage in stages_of(size):
        backends = load(stage.store)
        stacks = [s for s in (REFERENCE, OVER_ELASTICSEARCH) if s.runs_in(backends)]
        stores = {stack.name: stack.store.value for stack in stacks}
        print(f"{stage.store.name}, {stage.series}", file=sys.stderr)
        files = (backends.folder, *folders)
        conditions = Conditions(fewer, stage.queried, read_key(), backends, logs, files)
        with started(conditions, stacks, divide(available_cores(), 1)) as bench:
            # The node of all stores has just started, and has answered no such requests yet.
            if size.thorough and (cold := set(stage.operations) - warm):
                warm_up(bench, sorted(cold, key=stage.operations.index), stacks)
                warm |= cold
            # A cached answer costs the same over any store.
            figures = measure(bench, stage.operations, stacks, connections=1, kinds=(NOT_CACHED,))
        costs += [
            Cost(
                f"{stores[figure.stack]}: {stage.series}",
                BY_NAME[figure.operation].title,
                stage.size,
                1 / figure.ratio,
                figure.p50,
            )
            for figure in figures
        ]
    return costs
