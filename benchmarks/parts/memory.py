"""The memory of one worker while it answers the requests of a busy hour."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benchmarks.load.wrk import put_load
from benchmarks.parts.bench import Bench, Conditions, started
from benchmarks.requests.operations import BY_NAME
from benchmarks.results import Memory
from benchmarks.running.cores import available_cores, divide
from benchmarks.stacks import REFERENCE

_PORTIONS: Final = 20
_LONGEST_SECONDS: Final = 10.0
# The share of each operation in a hundred requests. None is repeated within a period of load.
_MIX: Final = {
    "detail": 80,
    "quarantines": 10,
    "events-10": 4,
    "events-100": 1,
    "glob-prefix": 5,
}
_TURNS: Final = 200


def measure_memory(conditions: Conditions) -> Memory | None:
    """Return the resident memory after each portion of requests; `None` if the system hides it."""
    total = conditions.size.memory_requests
    resident: list[int] = []
    done = 0
    with started(conditions, [REFERENCE], divide(available_cores(), 1)) as bench:
        server = bench.servers[REFERENCE.name]
        if server.pid is None or not status_of(server.pid).exists():
            return None
        seconds = conditions.size.seconds
        for portion in range(1, _PORTIONS + 1):
            while done < total * portion // _PORTIONS:
                measured = put_load(
                    server.address,
                    _mixed_paths(bench),
                    conditions.key,
                    seconds=seconds,
                    cores=bench.cores.client,
                )
                done += measured.requests
                portion_seconds = total / _PORTIONS / measured.requests_per_second
                seconds = min(portion_seconds, _LONGEST_SECONDS)
            resident.append(read_resident(status_of(server.pid).read_text()))
            print(f"  {done:9,} requests: {resident[-1] / 2**20:.1f} MiB", file=sys.stderr)
    return Memory(done, tuple(resident))


def status_of(pid: int) -> Path:
    """Return the path of a process' status in proc(5)."""
    return Path(f"/proc/{pid}/status")


def read_resident(status: str) -> int:
    """Parse the resident memory, in bytes, from a process' status. Pure."""
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def _mixed_paths(bench: Bench) -> list[str]:
    """Return paths of all operations of the mix, in turn."""
    of_each = {
        name: iter(bench.numbered_paths(REFERENCE, BY_NAME[name], share * _TURNS))
        for name, share in _MIX.items()
    }
    turn = [name for name, share in _MIX.items() for _ in range(share)]
    return [next(of_each[name]) for _ in range(_TURNS) for name in turn]
