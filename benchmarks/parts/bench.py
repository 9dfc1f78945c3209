"""The running servers of one measurement, with functions to query and load each."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.data.sizes import Size
from benchmarks.load.answers import Answer, ask, walk
from benchmarks.load.wrk import CONNECTIONS, Slice, put_load
from benchmarks.requests.operations import Operation, QueriedRepository
from benchmarks.running.cores import Cores
from benchmarks.running.processes import Running, free_port, running
from benchmarks.running.rest import wait_until_at_rest
from benchmarks.stacks import Backends, Stack, launch_floor
from service.cache.keys import EVENTS_LIFETIME

# More paths than any stack answers in one period, so that no path repeats in it.
PATHS_A_SLICE: Final = 40_000
# The same for a single client, which waits for each answer.
PATHS_ALONE: Final = 8_000
# The same for deep pages, each found by a request.
DEEP_PAGES: Final = 6_000
# More requests than a run sends to one stack.
NUMBERS_A_STACK: Final = 100_000_000
# How many times longer than requested a period may be if answers are slow.
_LONGEST_SLICE: Final = 5


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that all measurements of one store share; `folders` have all its files."""

    size: Size
    queried: QueriedRepository
    key: str
    backends: Backends
    logs: Path
    folders: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Bench:
    """The running servers by stack name, each with the same number of workers."""

    conditions: Conditions
    cores: Cores
    workers: int
    servers: Mapping[str, Running]
    # The next numbers of each stack, by its name; no two stacks have the same. There are fewer
    # tests than numbers, so those of a stack go round all of them before one comes again: its cache
    # has forgotten that test by then.
    numbers: dict[str, Iterator[int]] = field(default_factory=dict)
    # The paths of deep pages, by the names of stack and operation.
    walked: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    # The measurements without a figure, and why.
    failures: list[str] = field(default_factory=list)

    def ask(self, stack: Stack, path: str) -> Answer:
        """Return one answer of a stack."""
        return ask(self.servers[stack.name].port, path, self.conditions.key)

    def repeated_path(self, stack: Stack, operation: Operation) -> str:
        """Return the path of the repeated request, found by links if it is not a first page."""
        path = stack.dialect(self.conditions.backends)(operation, self.conditions.queried, None)
        if operation.page == 1:
            return path
        pages = walk(self.servers[stack.name].port, path, self.conditions.key)
        return next(itertools.islice(pages, operation.page - 1, None))

    def numbered_paths(
        self, stack: Stack, operation: Operation, count: int = PATHS_A_SLICE
    ) -> list[str]:
        """Return paths whose responses are not cached."""
        if operation.page > 1:
            return self._pages_after(stack, operation)
        dialect = stack.dialect(self.conditions.backends)
        queried = self.conditions.queried
        first = 1 + NUMBERS_A_STACK * len(self.numbers)
        numbers = self.numbers.setdefault(stack.name, itertools.count(first))
        return [dialect(operation, queried, next(numbers)) for _ in range(count)]

    def _pages_after(self, stack: Stack, operation: Operation) -> list[str]:
        """Return the paths of that page and those after it, once no cache has them any more."""
        paths = self.walked.get((stack.name, operation.name))
        if paths is None:
            first = self.repeated_path(stack, operation)
            pages = walk(self.servers[stack.name].port, first, self.conditions.key)
            paths = list(itertools.islice(pages, DEEP_PAGES))
            self.walked[stack.name, operation.name] = paths
        time.sleep(EVENTS_LIFETIME)
        return paths

    def load(self, server: Running, paths: Sequence[str], connections: int = CONNECTIONS) -> Slice:
        """Run one period of load after a warm-up; return when the server is idle again."""
        size = self.conditions.size
        # A slow server has to answer every connection more than once to give a meaningful rate.
        began = time.perf_counter()
        ask(server.port, paths[0], self.conditions.key)
        turns = 2 * connections * (time.perf_counter() - began)
        seconds = min(max(turns, size.seconds), _LONGEST_SLICE * size.seconds)
        self.put(server, paths[:1], size.warm_up, connections)
        return self.put(server, paths, seconds, connections)

    def put(
        self,
        server: Running,
        paths: Sequence[str],
        seconds: float,
        connections: int = CONNECTIONS,
    ) -> Slice:
        """Run one period of load of that length; return when the server is idle again."""
        measured = put_load(
            server.address,
            paths,
            self.conditions.key,
            seconds=seconds,
            cores=self.cores.client,
            connections=connections,
        )
        if server.pid is not None:
            wait_until_at_rest(server.pid)
        return measured


@contextmanager
def started(
    conditions: Conditions, stacks: Sequence[Stack], cores: Cores, workers: int = 1
) -> Iterator[Bench]:
    """Run all of the stacks until the context exits."""
    with ExitStack() as exits:
        servers = {}
        for stack in stacks:
            port = free_port()
            launch = stack.launch(conditions.backends, port, workers)
            if launch is None:
                url = urlsplit(conditions.backends.elasticsearch_url or "")
                servers[stack.name] = Running(int(url.port or 0), None)
                continue
            log = conditions.logs / f"{stack.name.replace(', ', '-').lower()}-{workers}.log"
            servers[stack.name] = exits.enter_context(running(launch, port, log, cores.server))
        yield Bench(conditions, cores, workers, servers)


@contextmanager
def floor_started(bench: Bench, sizes: Sequence[int]) -> Iterator[Running]:
    """Run the floor beside them, with constants of these sizes."""
    port = free_port()
    launch = launch_floor(sorted(set(sizes)), port, bench.workers)
    log = bench.conditions.logs / f"floor-{bench.workers}.log"
    with running(launch, port, log, bench.cores.server) as floor:
        yield floor
