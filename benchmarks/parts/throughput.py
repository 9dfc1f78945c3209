"""How fast each stack answers each operation, in rounds that alternate with the floor's own."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.data.sizes import Size
from benchmarks.load.answers import Answer, WrongAnswerError, ask, walk
from benchmarks.load.wrk import CONNECTIONS, Slice, put_load
from benchmarks.operations import Asked, Operation
from benchmarks.results import Figure, Round
from benchmarks.running.cores import Cores
from benchmarks.running.processes import Running, free_port, running
from benchmarks.running.rest import wait_until_at_rest
from benchmarks.stacks import REFERENCE, Stack, Surroundings, start_floor, takes_part

# More paths than any stack answers in one stretch, so that none is asked for twice in it.
_PATHS_A_SLICE = 40_000
# So many stacks are measured between two looks at the floor.
_STACKS_A_FLOOR = 2
# How many times longer than asked for a stretch may be where answers are slow.
_LONGEST_SLICE = 5


@dataclass
class Bench:
    """All servers of one number of workers, running, and how they are asked."""

    size: Size
    asked: Asked
    key: str
    cores: Cores
    workers: int
    servers: dict[str, Running]
    # Where the next numbered requests begin: no two stretches ask for the same.
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


@contextmanager
def started(
    stacks: Sequence[Stack], around: Surroundings, cores: Cores, workers: int, logs: Path
) -> Iterator[dict[str, Running]]:
    """Have all of the stacks run."""
    with ExitStack() as exits:
        servers = {}
        for stack in stacks:
            port = free_port()
            log = logs / f"{stack.name.replace(', ', '-').lower()}-{workers}.log"
            servers[stack.name] = exits.enter_context(
                running(stack.start(around, port, workers), port, log, cores.server)
            )
        yield servers


@contextmanager
def floor_started(sizes: Sequence[int], cores: Cores, workers: int, logs: Path) -> Iterator[Running]:
    """Have the floor run with constants of these sizes."""
    port = free_port()
    launch = start_floor(sorted(set(sizes)), port, workers)
    with running(launch, port, logs / f"floor-{workers}.log", cores.server) as floor:
        yield floor


def reference_sizes(bench: Bench, operations: Sequence[Operation]) -> dict[str, int]:
    """How large the reference's answer to each operation is."""
    server = bench.servers[REFERENCE.name]
    return {
        operation.name: ask(
            server.port, _repeated_path(bench, REFERENCE, operation), bench.key
        ).size
        for operation in operations
    }


def measure_operation(
    bench: Bench,
    floor: Running,
    floor_size: int,
    operation: Operation,
    stacks: Sequence[Stack],
    *,
    repeated: bool,
    connections: int = CONNECTIONS,
) -> list[Figure]:
    """One figure for each stack.

    Raises:
        WrongAnswerError: an answer is not right, or does not stay as it was.
        LoadError: some request was not answered well.
    """
    paths = {stack.name: _repeated_path(bench, stack, operation) for stack in stacks}
    answers = {
        stack.name: ask(bench.servers[stack.name].port, paths[stack.name], bench.key)
        for stack in stacks
    }
    _check_agreement(operation, answers)
    rounds: dict[str, list[Round]] = {stack.name: [] for stack in stacks}
    for number in range(bench.size.rounds):
        # The other way round each time: what comes late in a round is not always the same.
        ordered = stacks if number % 2 == 0 else stacks[::-1]
        before = load_once(bench, floor, [f"/{floor_size}"], connections)
        for at in range(0, len(ordered), _STACKS_A_FLOOR):
            group = ordered[at : at + _STACKS_A_FLOOR]
            slices = {}
            for stack in group:
                asked = (
                    [paths[stack.name]] if repeated else numbered_paths(bench, stack, operation)
                )
                slices[stack.name] = load_once(
                    bench, bench.servers[stack.name], asked, connections
                )
            after = load_once(bench, floor, [f"/{floor_size}"], connections)
            for name, measured in slices.items():
                rounds[name].append(_round_of(measured, before, after))
            before = after
    for stack in stacks:
        again = ask(bench.servers[stack.name].port, paths[stack.name], bench.key)
        if (again.size, again.rows) != (answers[stack.name].size, answers[stack.name].rows):
            raise WrongAnswerError(f"{stack.name} changed its answer to {paths[stack.name]}")
    figures = [
        Figure(
            operation.name,
            stack.name,
            repeated,
            bench.workers,
            connections,
            tuple(rounds[stack.name]),
        )
        for stack in stacks
    ]
    for figure in figures:
        print(
            f"  {operation.name:12} {figure.stack:36} {'repeated' if repeated else 'other':8}"
            f" {figure.workers} {connections:3} {figure.requests_per_second:9,.0f}/s"
            f" {figure.ratio:6.3f}",
            file=sys.stderr,
        )
    return figures


def load_once(
    bench: Bench, server: Running, paths: Sequence[str], connections: int = CONNECTIONS
) -> Slice:
    """One stretch of load on a server at rest, after warming it up."""
    # A slow one has to answer every connection more than once for its rate to mean anything.
    began = time.perf_counter()
    ask(server.port, paths[0], bench.key)
    turns = 2 * connections * (time.perf_counter() - began)
    seconds = min(max(turns, bench.size.seconds), _LONGEST_SLICE * bench.size.seconds)
    for stretch, some in ((bench.size.warm_up, paths[:1]), (seconds, paths)):
        measured = put_load(
            server.address,
            some,
            bench.key,
            seconds=stretch,
            cores=bench.cores.client,
            connections=connections,
        )
        wait_until_at_rest(server.pid)
    return measured


def numbered_paths(
    bench: Bench, stack: Stack, operation: Operation, count: int = _PATHS_A_SLICE
) -> list[str]:
    """So many paths that nobody was asked for before."""
    path_of = stack.path_of(operation)
    return [path_of(bench.asked, next(bench.numbers)) for _ in range(count)]


def _repeated_path(bench: Bench, stack: Stack, operation: Operation) -> str:
    path = stack.path_of(operation)(bench.asked, None)
    server = bench.servers[stack.name]
    return walk(server.port, path, bench.key, operation.page) if operation.page > 1 else path




def _check_agreement(operation: Operation, answers: dict[str, Answer]) -> None:
    rows = {name: answer.rows for name, answer in answers.items()}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        raise WrongAnswerError(f"{operation.name}: the answers have {rows} rows")


def _round_of(measured: Slice, before: Slice, after: Slice) -> Round:
    floor = (before.requests_per_second + after.requests_per_second) / 2
    return Round(measured.requests_per_second, floor, measured.p50, measured.p99)
