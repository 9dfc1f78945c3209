"""The amounts of data and the measuring times of the full run and of the quick one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The contents of one store.

    `tests` counts those of the measured repository, `identities` those of all; each other
    repository has `tests_elsewhere`. `events` all belong to the measured one. `name` is also the
    folder's name.
    """

    name: str
    tests: int
    identities: int
    events: int
    tests_elsewhere: int = 5_000


@dataclass(frozen=True, slots=True)
class Size:
    """One run of the benchmarks; times are in seconds.

    `operations` are the names of the measured operations, `None` for all. `thorough` also measures
    them with a single client and with two workers, over warm servers. `memory_requests` go to one
    worker while its memory is sampled. `growth_events` and `growth_identities` are the sizes of the
    stores whose costs are compared. `ingest_events` and `ingest_executions` are the amounts of the
    timed loads. `history_depths` are the executions that each of `history_tests` tests has when the
    next report is loaded. `rebuilt_tests` are those of the store that is rebuilt. One loader and
    several load `loaders_reports` reports of `loaders_tests` tests each. The share of cached
    answers is that of `share_seconds`.
    """

    name: str
    store: StoreSize
    operations: tuple[str, ...] | None
    thorough: bool
    rounds: int
    warm_up: float
    seconds: float
    memory_requests: int
    growth_events: tuple[int, ...]
    growth_identities: tuple[int, ...]
    ingest_events: int
    ingest_executions: int
    history_tests: int
    history_depths: tuple[int, ...]
    rebuilt_tests: int
    loaders_reports: int
    loaders_tests: int
    share_seconds: float


FULL: Final = Size(
    name="full",
    store=StoreSize("full", tests=100_000, identities=1_000_000, events=100_000),
    operations=None,
    thorough=True,
    rounds=3,
    warm_up=0.2,
    seconds=1.5,
    # 200 requests a second for an hour.
    memory_requests=720_000,
    growth_events=(10_000, 100_000, 1_000_000, 10_000_000),
    growth_identities=(1_000, 10_000, 100_000, 1_000_000),
    ingest_events=40_000,
    ingest_executions=40_000,
    history_tests=1_000,
    history_depths=(0, 30, 300, 3_000),
    rebuilt_tests=10_000,
    loaders_reports=40,
    loaders_tests=500,
    share_seconds=20.0,
)

QUICK: Final = Size(
    name="quick",
    store=StoreSize("quick", tests=10_000, identities=20_000, events=10_000),
    operations=("detail", "quarantines", "events-10", "glob-prefix"),
    thorough=False,
    rounds=1,
    warm_up=0.1,
    seconds=0.4,
    memory_requests=20_000,
    growth_events=(6_000, 12_000),
    growth_identities=(1_000, 4_000),
    ingest_events=5_000,
    ingest_executions=5_000,
    history_tests=50,
    history_depths=(0, 30, 300),
    rebuilt_tests=500,
    loaders_reports=4,
    loaders_tests=50,
    share_seconds=2.0,
)

SIZES: Final = {size.name: size for size in (FULL, QUICK)}
