"""The latency of test detail while a client floods the same worker with slow searches."""

from __future__ import annotations

from typing import Final

from benchmarks.load.wrk import put_load, under_load
from benchmarks.parts.bench import Bench, Conditions, started
from benchmarks.requests.operations import BY_NAME, SCAN
from benchmarks.results import Flood
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.processes import Running
from benchmarks.running.rest import wait_until_at_rest
from benchmarks.stacks import REFERENCE

SEARCHERS: Final = 8

# A 99th percentile needs more samples than a rate.
_TIMES_LONGER: Final = 2


def measure_flood(conditions: Conditions) -> Flood:
    """Measure detail alone and detail under the flood in turn."""
    alone, flooded, searches = [], [], []
    with started(conditions, [REFERENCE], divide(available_cores(), 1)) as bench:
        server = bench.servers[REFERENCE.name]
        detail = [bench.repeated_path(REFERENCE, BY_NAME["detail"])]
        for _ in range(conditions.size.rounds):
            alone.append(_p99_of(bench, server, detail))
            _wait(server)
            with under_load(
                server.address,
                bench.numbered_paths(REFERENCE, SCAN),
                conditions.key,
                cores=bench.cores.client,
                connections=SEARCHERS,
            ) as flood:
                flooded.append(_p99_of(bench, server, detail))
                searches.append(flood.finish_after(0).requests_per_second)
            _wait(server)
    return Flood(tuple(alone), tuple(flooded), sum(searches) / len(searches))


def _p99_of(bench: Bench, server: Running, paths: list[str]) -> float:
    measured = put_load(
        server.address,
        paths,
        bench.conditions.key,
        seconds=_TIMES_LONGER * bench.conditions.size.seconds,
        cores=bench.cores.client,
    )
    return measured.p99


def _wait(server: Running) -> None:
    if server.pid is not None:
        wait_until_at_rest(server.pid)
