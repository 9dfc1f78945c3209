"""How long test detail takes while somebody floods the same worker with slow searches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.load.wrk import put_load, under_load
from benchmarks.operations import BY_NAME
from benchmarks.parts.throughput import Bench, numbered_paths, started
from benchmarks.results import Flood
from benchmarks.running.rest import wait_until_at_rest
from benchmarks.stacks import REFERENCE, Surroundings

SEARCHERS: Final = 8

_DETAIL: Final = BY_NAME["detail"]
_SUFFIX: Final = BY_NAME["glob-suffix"]


def measure_flood(bench: Bench, around: Surroundings, logs: Path) -> Flood:
    """Rounds of detail alone and detail under the flood, in turn."""
    alone, flooded, searches = [], [], []
    with started([REFERENCE], around, bench.cores, bench.workers, logs) as servers:
        server = servers[REFERENCE.name]
        bench.servers = servers
        detail = [REFERENCE.path_of(_DETAIL)(bench.asked, None)]
        for _ in range(bench.size.rounds):
            alone.append(_p99_of(bench, server.address, detail))
            wait_until_at_rest(server.pid)
            suffixes = numbered_paths(bench, REFERENCE, _SUFFIX)
            with under_load(
                server.address,
                suffixes,
                bench.key,
                cores=bench.cores.client,
                connections=SEARCHERS,
            ) as flood:
                flooded.append(_p99_of(bench, server.address, detail))
                searches.append(flood.finish_after(0).requests_per_second)
            wait_until_at_rest(server.pid)
    return Flood(tuple(alone), tuple(flooded), sum(searches) / len(searches))


def _p99_of(bench: Bench, address: str, paths: list[str]) -> float:
    measured = put_load(
        address, paths, bench.key, seconds=bench.size.seconds, cores=bench.cores.client
    )
    return measured.p99
