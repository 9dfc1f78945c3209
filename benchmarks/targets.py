"""The targets, each declared once; those of loads are in `load_targets`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.load.wrk import CONNECTIONS
from benchmarks.load_targets import load_targets
from benchmarks.requests.operations import (
    BY_NAME,
    EVENT_PAGES,
    OF_EACH_KIND,
    OPERATIONS,
    SEARCHES,
    Operation,
)
from benchmarks.results import Figure, Results, Subject, compare
from benchmarks.stacks import STACKS, CacheKind, Service, StoreKind, name_of
from benchmarks.verdicts import Target, TargetResult

ALONE_MILLISECONDS: Final = 30.0
# Relative to the raw search request, with as many clients.
TIMES_RAW: Final = 1.5
TIMES_FASTAPI: Final = 2.0
TIMES_DATASETTE: Final = 5.0
# A poll of the newest page of events, relative to a cached test detail.
POLL_RATIO: Final = 1.3
FLOOD_RATIO: Final = 3.0
# Two workers with a core each, relative to one.
WORKERS_RATIO: Final = 1.7
# The ratio of a process without a leak: the allocator adds and returns a few pages.
MEMORY_RATIO: Final = 1.05

_SQLITE: Final = name_of(Service.MERGEWATCH, StoreKind.SQLITE, CacheKind.PROCESS)
_REDIS: Final = name_of(Service.MERGEWATCH, StoreKind.SQLITE, CacheKind.REDIS)
_ELASTICSEARCH: Final = name_of(Service.MERGEWATCH, StoreKind.ELASTICSEARCH, CacheKind.PROCESS)
_RAW: Final = name_of(Service.ITSELF, StoreKind.ELASTICSEARCH, CacheKind.NONE)

# The most common requests: plugins in every run, cached in each process or in a shared Redis; and
# walks of the event log, which read the store.
HOTTEST: Final = (
    Subject("detail", _SQLITE, repeated=True),
    Subject("quarantines", _REDIS, repeated=True),
    Subject("events-100", _SQLITE, repeated=False),
)


def judge(results: Results) -> list[TargetResult]:
    """Return every target with its measured figure."""
    return [TargetResult(target, target.figure(results)) for target in all_targets()]


def all_targets() -> list[Target]:
    """Return the targets in display order."""
    return [
        _of_floor("detail", _SQLITE, 0.80, repeated=True),
        _of_floor("detail", _REDIS, 0.60, repeated=True),
        _of_floor("quarantines", _SQLITE, 0.80, repeated=True),
        _of_floor("quarantines", _REDIS, 0.50, repeated=True),
        _of_cached_detail("events-10", POLL_RATIO),
        _of_floor("detail", _SQLITE, 0.30, repeated=False),
        _of_floor("events-10", _SQLITE, 0.25, repeated=False),
        _of_floor("events-100", _SQLITE, 0.20, repeated=False),
        _of_floor("glob-prefix", _SQLITE, 0.12, repeated=False),
        _of_floor("glob-rare", _SQLITE, 0.04, repeated=False),
        _of_floor("glob-suffix", _SQLITE, 0.05, repeated=False),
        _of_floor("glob-two", _SQLITE, 0.04, repeated=False),
        *(_alone(operation) for operation in SEARCHES),
        *(
            _against_itself(operation)
            for operation in (*EVENT_PAGES, *SEARCHES)
            if operation.page == 1
        ),
        *_against_peers(Service.FASTAPI, TIMES_FASTAPI),
        *_against_peers(Service.DATASETTE, TIMES_DATASETTE),
        Target(
            "p99 of test detail under a flood of searches of every name, times its p99 alone",
            FLOOD_RATIO,
            at_least=False,
            figure=lambda results: None if results.flood is None else results.flood.ratio,
        ),
        *(_of_workers(name, repeated=again) for name in OF_EACH_KIND for again in (True, False)),
        Target(
            "memory of one worker at the end of its requests, times that half-way",
            MEMORY_RATIO,
            at_least=False,
            figure=lambda results: None if results.memory is None else results.memory.ratio,
        ),
        *load_targets(),
    ]


def _of_workers(operation: str, *, repeated: bool) -> Target:
    def figure(results: Results) -> float | None:
        return next(
            (
                found.ratio
                for found in results.workers
                if (found.operation, found.repeated) == (operation, repeated)
            ),
            None,
        )

    cached = "cached" if repeated else "not cached"
    return Target(
        f"{BY_NAME[operation].title}, {cached}, two workers with a core each, times one",
        WORKERS_RATIO,
        at_least=True,
        figure=figure,
        subject=Subject(operation, _SQLITE, repeated),
    )


def _of_floor(operation: str, stack: str, bound: float, *, repeated: bool) -> Target:
    def figure(results: Results) -> float | None:
        found = results.find(operation, stack, repeated=repeated)
        return None if found is None else found.ratio

    return Target(
        f"{BY_NAME[operation].title}, {stack}, of the floor" + ("" if repeated else ", not cached"),
        bound,
        at_least=True,
        figure=figure,
        subject=Subject(operation, stack, repeated),
    )


def _of_cached_detail(operation: str, bound: float) -> Target:
    """Limit the time of a repeated request relative to that of a cached detail."""

    def figure(results: Results) -> float | None:
        one, detail = (results.find(name, _SQLITE, repeated=True) for name in (operation, "detail"))
        return None if one is None or detail is None else 1 / compare(one, detail)

    return Target(
        f"{BY_NAME[operation].title}, {_SQLITE}, repeated, times a cached test detail",
        bound,
        at_least=False,
        figure=figure,
        subject=Subject(operation, _SQLITE, repeated=True),
    )


def _alone(operation: Operation) -> Target:
    def figure(results: Results) -> float | None:
        found = results.find(operation.name, _SQLITE, repeated=False, connections=1)
        return None if found is None else found.p50 * 1000

    return Target(
        f"{operation.title}, {_SQLITE}, time alone (median)",
        ALONE_MILLISECONDS,
        at_least=False,
        figure=figure,
        unit=" ms",
        subject=Subject(operation.name, _SQLITE, repeated=False),
    )


def _against_itself(operation: Operation) -> Target:
    """Limit the time of a request over Elasticsearch relative to the search itself, under load.

    A client alone is shown beside it: it waits for the service and for the node, one after the
    other.
    """

    def figure(results: Results) -> float | None:
        return against_raw(results, operation, connections=CONNECTIONS)

    return Target(
        f"{operation.title}, {_ELASTICSEARCH}, times the raw search by itself, under load",
        TIMES_RAW,
        at_least=False,
        figure=figure,
        subject=Subject(operation.name, _ELASTICSEARCH, repeated=False),
    )


def against_raw(results: Results, operation: Operation, *, connections: int) -> float | None:
    """Return the time of a request over Elasticsearch relative to that of the search itself."""
    one, raw = (
        results.find(operation.name, stack, repeated=False, connections=connections)
        for stack in (_ELASTICSEARCH, _RAW)
    )
    return None if one is None or raw is None else 1 / compare(one, raw)


def _against_peers(peer: Service, bound: float) -> Iterator[Target]:
    """Yield a target for each pair over the same store and cache, and each operation."""
    for theirs in STACKS:
        if theirs.service is not peer:
            continue
        # A peer without a cache is compared with our stack where our cache does not help.
        ours = name_of(
            Service.MERGEWATCH,
            theirs.store,
            CacheKind.PROCESS if theirs.cache is CacheKind.NONE else theirs.cache,
        )
        for operation in OPERATIONS:
            for repeated in (True, False):
                if theirs.takes_part(operation, repeated=repeated):
                    yield _times(operation.name, ours, theirs.name, bound, repeated=repeated)


def _times(operation: str, ours: str, theirs: str, bound: float, *, repeated: bool) -> Target:
    def figure(results: Results) -> float | None:
        pair: list[Figure | None] = [
            results.find(operation, stack, repeated=repeated) for stack in (ours, theirs)
        ]
        one, other = pair
        return None if one is None or other is None else compare(one, other)

    cached = "" if repeated else ", not cached"
    return Target(
        f"{BY_NAME[operation].title}{cached}, times {theirs}",
        bound,
        at_least=True,
        figure=figure,
        subject=Subject(operation, ours, repeated),
    )
