"""The memory of one worker while it answers as many requests as a busy hour brings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benchmarks.load.wrk import put_load
from benchmarks.operations import BY_NAME
from benchmarks.parts.throughput import Bench, numbered_paths, started
from benchmarks.results import Memory
from benchmarks.stacks import REFERENCE, Surroundings

_PORTIONS: Final = 20
_LONGEST_SECONDS: Final = 10.0
# Of a hundred requests, so many are of each operation; each asks for something else.
_MIX: Final = {
    "detail": 80,
    "quarantines": 10,
    "events-10": 4,
    "events-100": 1,
    "glob-prefix": 5,
}


def measure_memory(bench: Bench, around: Surroundings, logs: Path) -> Memory | None:
    """The resident memory after each portion of the requests; `None` where nothing tells it."""
    if not Path("/proc/self/status").exists():
        return None
    total = bench.size.memory_requests
    resident = []
    done = 0
    with started([REFERENCE], around, bench.cores, bench.workers, logs) as servers:
        bench.servers = servers
        server = servers[REFERENCE.name]
        seconds = bench.size.seconds
        for portion in range(1, _PORTIONS + 1):
            while done < total * portion // _PORTIONS:
                measured = put_load(
                    server.address,
                    _mixed_paths(bench),
                    bench.key,
                    seconds=seconds,
                    cores=bench.cores.client,
                )
                done += measured.requests
                seconds = _next_stretch(total // _PORTIONS, measured.requests_per_second)
            resident.append(resident_bytes(server.pid))
            print(f"  {done:9,} requests: {resident[-1] / 2**20:.1f} MiB", file=sys.stderr)
    return Memory(done, tuple(resident))


def resident_bytes(pid: int) -> int:
    """The resident memory of a process, by proc(5)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} is gone")


def _next_stretch(requests: int, per_second: float) -> float:
    return min(requests / per_second, _LONGEST_SECONDS)


def _mixed_paths(bench: Bench) -> list[str]:
    """Paths of all operations of the mix, in turn."""
    of_each = {
        name: iter(numbered_paths(bench, REFERENCE, BY_NAME[name], share * 200))
        for name, share in _MIX.items()
    }
    turn = [name for name, share in _MIX.items() for _ in range(share)]
    return [next(of_each[name]) for _ in range(200) for name in turn]
