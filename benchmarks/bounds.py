"""Compares the service with the bound of any service on aiohttp: `python -m benchmarks.bounds`.

The bound is `benchmarks.peers.bare`: handlers that only call the store, or pass one search on to
Elasticsearch. Nothing is cached. Rounds alternate, and medians of their ratios count. The only
argument is the kind of store, `sqlite` or `elasticsearch`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from benchmarks.__main__ import ELASTICSEARCH, SERVERS, prepared
from benchmarks.data.sizes import SIZES
from benchmarks.load.wrk import ensure_wrk
from benchmarks.parts.bench import Bench, Conditions, floor_started, started
from benchmarks.parts.warm_up import warm_up
from benchmarks.requests.operations import OPERATIONS, Kind, Operation
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.processes import Launch, Running, free_port, running
from benchmarks.stacks import (
    OVER_ELASTICSEARCH,
    REFERENCE,
    STACKS,
    Backends,
    Service,
    Stack,
    StoreKind,
)

SQLITE: Final = "sqlite"
_ITSELF: Final = next(stack for stack in STACKS if stack.service is Service.ITSELF)
_MEASURED: Final = [o for o in OPERATIONS if o.page == 1 and o.kind is not Kind.QUARANTINES]
_TITLE_WIDTH: Final = 36


def measure(conditions: Conditions, store: StoreKind) -> None:
    """Print the rates of each operation, as ratios to the reference of that store."""
    service = REFERENCE if store is StoreKind.SQLITE else OVER_ELASTICSEARCH
    stacks = [service] if store is StoreKind.SQLITE else [service, _ITSELF]
    with (
        started(conditions, stacks, divide(available_cores(), 1)) as bench,
        _bare_started(bench, store) as bare,
    ):
        warm_up(bench, _MEASURED, stacks)
        for operation in _MEASURED:
            if store is StoreKind.SQLITE:
                _compare_with_floor(bench, service, bare, operation)
            elif operation.kind is not Kind.DETAIL:
                _compare_with_search(bench, service, bare, operation)


def _compare_with_floor(bench: Bench, service: Stack, bare: Running, operation: Operation) -> None:
    """Print shares of the floor: those of the service, and of one call of its store."""
    size = bench.ask(service, bench.repeated_path(service, operation)).size
    with floor_started(bench, [size]) as floor:

        def rate_of(server: Running, path: str | None = None) -> float:
            paths = bench.numbered_paths(service, operation) if path is None else [path]
            return bench.load(server, paths).requests_per_second

        rounds = []
        for _ in range(bench.conditions.size.rounds):
            best = rate_of(floor, f"/{size}")
            rounds.append(
                {
                    "service": rate_of(bench.servers[service.name]) / best,
                    "call of the store": rate_of(bare) / best,
                }
            )
    _print(operation, "of the floor", rounds)


def _compare_with_search(bench: Bench, service: Stack, bare: Running, operation: Operation) -> None:
    """Print times the raw search: the service, one call of its store, and that search passed on."""
    rounds = []
    for _ in range(bench.conditions.size.rounds):

        def times_of(server: Running, stack: Stack) -> float:
            paths = bench.numbered_paths(stack, operation)
            return 1 / bench.load(server, paths).requests_per_second

        itself = times_of(bench.servers[_ITSELF.name], _ITSELF)
        rounds.append(
            {
                "service": times_of(bench.servers[service.name], service) / itself,
                "call of the store": times_of(bare, service) / itself,
                "search passed on": times_of(bare, _ITSELF) / itself,
            }
        )
    _print(operation, "times the raw search", rounds)


def _print(operation: Operation, unit: str, rounds: Sequence[dict[str, float]]) -> None:
    shown = ", ".join(
        f"{name} {statistics.median(each[name] for each in rounds):.3f}" for name in rounds[0]
    )
    print(f"{operation.title:{_TITLE_WIDTH}} {shown} {unit}", flush=True)


@contextmanager
def _bare_started(bench: Bench, store: StoreKind) -> Iterator[Running]:
    port = free_port()
    launch = _launch_bare(bench.conditions.backends, port, store)
    log = bench.conditions.logs / f"bare-{store.value.lower()}.log"
    with running(launch, port, log, bench.cores.server) as bare:
        yield bare


def _launch_bare(backends: Backends, port: int, store: StoreKind) -> Launch:
    place = (
        ["--folder", str(backends.folder)]
        if store is StoreKind.SQLITE
        else [
            "--elasticsearch",
            backends.elasticsearch_url or "",
            "--prefix",
            backends.elasticsearch_prefix,
        ]
    )
    command = (sys.executable, "-m", "benchmarks.peers.bare", "--port", str(port), *place)
    return Launch(command, "/ready")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounds", description=__doc__)
    parser.add_argument("store", choices=(SQLITE, ELASTICSEARCH))
    parser.add_argument("--size", choices=sorted(SIZES), default="full")
    options = parser.parse_args()
    ensure_wrk()
    is_sqlite = options.store == SQLITE
    without = list(SERVERS) if is_sqlite else [s for s in SERVERS if s != ELASTICSEARCH]
    with prepared(SIZES[options.size], without) as run:
        measure(run.conditions(), StoreKind.SQLITE if is_sqlite else StoreKind.ELASTICSEARCH)


if __name__ == "__main__":
    main()
