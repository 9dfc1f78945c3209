"""The throughput of each stack and operation, in rounds that alternate with the floor."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.load.answers import Answer, WrongAnswerError
from benchmarks.load.wrk import CONNECTIONS, LoadError
from benchmarks.parts.bench import (
    PATHS_A_SLICE,
    PATHS_ALONE,
    Bench,
    Conditions,
    floor_started,
    started,
)
from benchmarks.parts.warm_up import warm_up
from benchmarks.requests.operations import (
    BY_NAME,
    EVENT_PAGES,
    OF_EACH_KIND,
    OPERATIONS,
    SEARCHES,
    Operation,
)
from benchmarks.results import Figure, Round
from benchmarks.running.cores import available_cores, divide
from benchmarks.running.page_cache import read_files
from benchmarks.running.processes import Running
from benchmarks.stacks import REFERENCE, STACKS, CacheKind, Service, Stack

# The number of stacks between two measurements of the floor.
_STACKS_A_FLOOR: Final = 2

# The kinds of requests, as in `Figure.repeated`.
REPEATED: Final = True
NOT_CACHED: Final = False


def measure_throughput(conditions: Conditions) -> tuple[list[Figure], list[str]]:
    """Measure every operation over every stack that runs here.

    Two workers are measured only if they and the load have cores of their own. Returns the figures,
    and the failed measurements.
    """
    size = conditions.size
    chosen = [o for o in OPERATIONS if size.operations is None or o.name in size.operations]
    here = [stack for stack in STACKS if stack.runs_in(conditions.backends)]
    with started(conditions, here, divide(available_cores(), 1)) as bench:
        failures = bench.failures
        if size.thorough:
            warm_up(bench, chosen, here)
        figures = measure(bench, chosen, here)
        if size.thorough:
            figures += _measure_alone(bench, here)
    cores = divide(available_cores(), 2)
    if size.thorough and cores.apart:
        with_workers = [stack for stack in here if stack.has_workers]
        with started(conditions, with_workers, cores, workers=2) as bench:
            figures += measure(bench, [BY_NAME[name] for name in OF_EACH_KIND], with_workers)
            failures += bench.failures
    return figures, failures


def _measure_alone(bench: Bench, stacks: Sequence[Stack]) -> list[Figure]:
    """Measure the latency of a single client whose answers are not cached."""
    timed = [s for s in stacks if s.service in (Service.MERGEWATCH, Service.ITSELF)]
    timed = [stack for stack in timed if stack.cache is not CacheKind.REDIS]
    return measure(bench, (*EVENT_PAGES, *SEARCHES), timed, connections=1, kinds=(NOT_CACHED,))


def measure(
    bench: Bench,
    operations: Sequence[Operation],
    stacks: Sequence[Stack],
    *,
    connections: int = CONNECTIONS,
    kinds: Sequence[bool] = (REPEATED, NOT_CACHED),
) -> list[Figure]:
    """Return a figure for each operation, kind of requests and stack that takes part in it."""
    sizes = {
        operation.name: bench.ask(REFERENCE, bench.repeated_path(REFERENCE, operation)).size
        for operation in operations
    }
    figures = []
    with floor_started(bench, list(sizes.values())) as floor:
        for operation in operations:
            for repeated in kinds:
                taking_part = [s for s in stacks if s.takes_part(operation, repeated=repeated)]
                if taking_part:
                    series = _Series(bench, floor, sizes[operation.name], operation, connections)
                    figures += series.measure(taking_part, repeated=repeated)
    return figures


class _Series:
    """The rounds of one operation."""

    def __init__(
        self, bench: Bench, floor: Running, size: int, operation: Operation, connections: int
    ) -> None:
        self._bench = bench
        self._floor = floor
        self._floor_path = f"/{size}"
        self._operation = operation
        self._connections = connections

    def measure(self, stacks: Sequence[Stack], *, repeated: bool) -> list[Figure]:
        """Return a figure for each stack that answered every request correctly.

        Raises:
            WrongAnswerError: an answer is wrong or changes.
        """
        paths = {s.name: self._bench.repeated_path(s, self._operation) for s in stacks}
        before = {stack.name: self._bench.ask(stack, paths[stack.name]) for stack in stacks}
        check_agreement(
            self._operation.name,
            {stack.name: self._shown(stack, before[stack.name]) for stack in stacks},
        )
        rounds: dict[str, list[Round]] = {stack.name: [] for stack in stacks}
        answering = list(stacks)
        for _ in range(self._bench.conditions.size.rounds):
            read_files(self._bench.conditions.folders)
            failed = self._measure_round(answering, paths if repeated else None, rounds)
            # Reverse the order each time, so that no stack always comes last in a round.
            answering = [stack for stack in answering[::-1] if stack.name not in failed]
        for stack in stacks:
            after = self._bench.ask(stack, paths[stack.name])
            if not is_same(stack, after, before[stack.name]):
                raise WrongAnswerError(f"{stack.name} changed its answer to {paths[stack.name]}")
        return [
            self._figure_of(stack, rounds[stack.name], repeated=repeated)
            for stack in stacks
            if rounds[stack.name]
        ]

    def _shown(self, stack: Stack, answer: Answer) -> int:
        """Return how many rows of the answer belong to the page."""
        if stack.service is not Service.ITSELF:
            return answer.rows
        # The store itself also returns the extra row that shows whether the list goes on.
        return min(answer.rows, self._operation.per_page)

    def _measure_round(
        self,
        stacks: Sequence[Stack],
        repeated: Mapping[str, str] | None,
        rounds: Mapping[str, list[Round]],
    ) -> set[str]:
        """Add a round to each; return the names of failed stacks, whose rounds are void."""
        failed: set[str] = set()
        count = PATHS_ALONE if self._connections == 1 else PATHS_A_SLICE
        before = self._floor_rate()
        for at in range(0, len(stacks), _STACKS_A_FLOOR):
            slices = {}
            for stack in stacks[at : at + _STACKS_A_FLOOR]:
                paths = (
                    self._bench.numbered_paths(stack, self._operation, count)
                    if repeated is None
                    else [repeated[stack.name]]
                )
                server = self._bench.servers[stack.name]
                try:
                    slices[stack.name] = self._bench.load(server, paths, self._connections)
                except LoadError as error:
                    self._fail(stack, error)
                    rounds[stack.name].clear()
                    failed.add(stack.name)
            after = self._floor_rate()
            for name, measured in slices.items():
                rate = measured.requests_per_second
                around = (before + after) / 2
                rounds[name].append(Round(rate, around, measured.p50, measured.p99))
            before = after
        return failed

    def _fail(self, stack: Stack, error: LoadError) -> None:
        words = f"{self._operation.title}, {stack.name}, {self._connections} connections: {error}"
        print(f"  FAILED {words}", file=sys.stderr)
        self._bench.failures.append(words)

    def _floor_rate(self) -> float:
        paths = [self._floor_path]
        return self._bench.load(self._floor, paths, self._connections).requests_per_second

    def _figure_of(self, stack: Stack, rounds: Sequence[Round], *, repeated: bool) -> Figure:
        figure = Figure(
            self._operation.name,
            stack.name,
            repeated,
            self._bench.workers,
            self._connections,
            tuple(rounds),
        )
        print(
            f"  {figure.operation:12} {figure.stack:34} {'repeated' if repeated else '':8}"
            f" {figure.workers} {figure.connections:3} {figure.requests_per_second:9,.0f}/s"
            f" {figure.ratio:6.3f}",
            file=sys.stderr,
        )
        return figure


def check_agreement(operation: str, rows: Mapping[str, int]) -> None:
    """Raise `WrongAnswerError` unless all have the same number of rows, and more than none."""
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise WrongAnswerError(f"{operation}: the answers have {dict(rows)} rows")


def is_same(stack: Stack, one: Answer, other: Answer) -> bool:
    """Return whether two answers are equal; some stacks include their own time in them."""
    return one.rows == other.rows and (one.size == other.size or stack.service is Service.ITSELF)
