"""The CPU time of a request with one worker and with two.

Two cores carry the load too, so a rate measured there is not that of two workers with a core each.
The CPU time of a request leaves the load out: where a worker has a core of its own, it answers as
many requests a second as fit into a second of CPU time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.parts.bench import Bench, Conditions, started
from benchmarks.requests.operations import BY_NAME, OF_EACH_KIND, Operation
from benchmarks.results import Scaling
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.page_cache import read_files
from benchmarks.running.rest import cpu_seconds
from benchmarks.stacks import REFERENCE

# CPU time is counted in hundredths of a second, which is coarse for a short period.
_TIMES_LONGER: Final = 2


@dataclass(frozen=True, slots=True)
class _Compared:
    """A service with one worker and one with two, over the same store."""

    one: Bench
    two: Bench

    def measure(self, operation: Operation, *, repeated: bool) -> Scaling:
        rounds: list[tuple[float, float]] = []
        for _ in range(self.one.conditions.size.rounds):
            read_files(self.one.conditions.folders)
            one, two = (
                _cpu_time_of_a_request(bench, operation, repeated=repeated)
                for bench in (self.one, self.two)
            )
            rounds.append((one, two))
        found = Scaling(
            operation.name,
            repeated,
            median(one for one, _ in rounds),
            median(two for _, two in rounds),
            median(2 * one / two for one, two in rounds),
        )
        print(f"  {operation.name:12} {found.ratio:.3f}", file=sys.stderr)
        return found


def measure_workers(conditions: Conditions) -> list[Scaling]:
    """Measure an operation of each kind, cached and not cached; needs proc(5)."""
    cores = divide(available_cores(), 2)
    with (
        started(conditions, [REFERENCE], cores) as one,
        started(conditions, [REFERENCE], cores, workers=2) as two,
    ):
        compared = _Compared(one, two)
        return [
            compared.measure(BY_NAME[name], repeated=repeated)
            for name in OF_EACH_KIND
            for repeated in (True, False)
        ]


def _cpu_time_of_a_request(bench: Bench, operation: Operation, *, repeated: bool) -> float:
    """Return the seconds of CPU time that all processes of the service spend on a request."""
    server = bench.servers[REFERENCE.name]
    paths = (
        [bench.repeated_path(REFERENCE, operation)]
        if repeated
        else bench.numbered_paths(REFERENCE, operation)
    )
    if server.pid is None:
        raise ValueError("another program started this service")
    size = bench.conditions.size
    bench.put(server, paths[:1], size.warm_up)
    before = cpu_seconds(server.pid)
    measured = bench.put(server, paths, _TIMES_LONGER * size.seconds)
    return (cpu_seconds(server.pid) - before) / measured.requests
