"""What each operation costs over stores of growing sizes, one client at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.data.loading import Loaded
from benchmarks.data.made_up import MEASURED, repository_elsewhere
from benchmarks.data.sizes import Size, StoreSize
from benchmarks.operations import BY_NAME, Asked, Operation
from benchmarks.parts.throughput import (
    Bench,
    floor_started,
    measure_operation,
    reference_sizes,
    started,
)
from benchmarks.results import Cost
from benchmarks.running.cores import Cores
from benchmarks.stacks import REFERENCE, Surroundings

# Fewer than a full run has: there are many stores, and what is looked for is a factor of ten.
_ROUNDS: Final = 2
_TESTS_ELSEWHERE: Final = 500

BY_EVENTS: Final = ("events-10", "events-100", "events-deep")
BY_IDENTITIES: Final = ("detail", "glob-prefix", "glob-rare", "glob-suffix", "glob-two")

# Fills the store of that size, where it is not filled yet.
Load = Callable[[StoreSize], Loaded]


@dataclass(frozen=True, slots=True)
class Stage:
    """One store, what is asked of it, and in which series its costs go."""

    size: int
    store: StoreSize
    asked: Asked
    series: str
    operations: tuple[str, ...]


def stages_of(size: Size) -> Iterator[Stage]:
    """All that is measured, the smaller stores first. Pure."""
    for events in size.growth_events:
        store = StoreSize(f"events-{events}", tests=1_000, identities=1_000, events=events)
        yield Stage(events, store, Asked(MEASURED, 1_000), "by events", BY_EVENTS)
    for identities in size.growth_identities:
        store = StoreSize(
            f"identities-{identities}",
            tests=identities // 10,
            identities=identities,
            events=1_000,
            tests_elsewhere=_TESTS_ELSEWHERE,
        )
        growing = Asked(MEASURED, store.tests)
        yield Stage(identities, store, growing, "in a tenth of all tests", BY_IDENTITIES)
        steady = Asked(repository_elsewhere(0), _TESTS_ELSEWHERE)
        yield Stage(
            identities, store, steady, f"in {_TESTS_ELSEWHERE} tests of all", BY_IDENTITIES
        )


def measure_growth(size: Size, load: Load, cores: Cores, logs: Path) -> list[Cost]:
    """The costs at every stage."""
    costs = []
    for stage in stages_of(replace(size, rounds=min(size.rounds, _ROUNDS))):
        loaded = load(stage.store)
        print(f"{stage.store.name}, {stage.series}", file=sys.stderr)
        around = Surroundings(loaded.folder)
        with started([REFERENCE], around, cores, 1, logs) as servers:
            bench = Bench(
                replace(size, rounds=min(size.rounds, _ROUNDS)),
                stage.asked,
                loaded.key,
                cores,
                1,
                servers,
            )
            costs += _costs_of(bench, stage, [BY_NAME[name] for name in stage.operations], logs)
    return costs


def _costs_of(bench: Bench, stage: Stage, operations: list[Operation], logs: Path) -> list[Cost]:
    sizes = reference_sizes(bench, operations)
    costs = []
    with floor_started(list(sizes.values()), bench.cores, 1, logs) as floor:
        for operation in operations:
            (figure,) = measure_operation(
                bench,
                floor,
                sizes[operation.name],
                operation,
                [REFERENCE],
                repeated=not operation.kept,
                connections=1,
            )
            series = f"{operation.title}, {stage.series}"
            costs.append(Cost(series, stage.size, 1 / figure.ratio, figure.p50))
    return costs
