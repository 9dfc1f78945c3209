"""Who is measured: each combination of a service, a store and a cache is one line of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from benchmarks.operations import Operation
from benchmarks.operations import Path as RequestPath
from benchmarks.peers.settings import REDIS_URL, SQLITE_PATH
from benchmarks.running.processes import HOST, Launch

SQLITE_FILE: Final = "mergewatch.db"
READY: Final = "/ready"


class Service(Enum):
    """Whose code answers."""

    MERGEWATCH = "mergewatch"
    FASTAPI = "FastAPI"
    DATASETTE = "Datasette"


class StoreKind(Enum):
    """Where the data lies."""

    SQLITE = "SQLite"
    ELASTICSEARCH = "Elasticsearch"


class CacheKind(Enum):
    """Where finished answers are kept."""

    NONE = "none"
    PROCESS = "in process"
    REDIS = "Redis"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the stacks may use; a URL is `None` where that server does not run."""

    folder: Path
    redis_url: str | None = None
    elasticsearch_url: str | None = None


# How a stack is started: surroundings, port and number of workers.
Start = Callable[[Surroundings, int, int], Launch]


@dataclass(frozen=True, slots=True)
class Stack:
    """One line of the table."""

    service: Service
    store: StoreKind
    cache: CacheKind
    start: Start

    @property
    def name(self) -> str:
        """The stack in figures and targets."""
        return name_of(self.service, self.store, self.cache)

    @property
    def many_workers(self) -> bool:
        """Whether it can be told to use several processes."""
        return self.service is not Service.DATASETTE

    def path_of(self, operation: Operation) -> RequestPath:
        """How this stack is asked for the operation."""
        return operation.datasette if self.service is Service.DATASETTE else operation.path

    def runs_in(self, surroundings: Surroundings) -> bool:
        """Whether all that it needs is there."""
        return not (
            (self.cache is CacheKind.REDIS and surroundings.redis_url is None)
            or (self.store is StoreKind.ELASTICSEARCH and surroundings.elasticsearch_url is None)
        )


def name_of(service: Service, store: StoreKind, cache: CacheKind) -> str:
    """The name of that combination."""
    return f"{service.value}, {store.value}" + (", Redis" if cache is CacheKind.REDIS else "")


def takes_part(stack: Stack, operation: Operation, *, repeated: bool) -> bool:
    """Whether the stack has something to show there.

    What is asked repeatedly is for caches; where nothing is kept that is all there is, and Redis
    has no part in it.
    """
    if not operation.kept:
        return repeated and stack.cache is not CacheKind.REDIS
    return stack.cache is not (CacheKind.NONE if repeated else CacheKind.REDIS)


def start_floor(sizes: list[int], port: int, workers: int) -> Launch:
    """The floor, with a constant of each size."""
    options = ("--port", str(port), "--workers", str(workers), *map(str, sizes))
    return Launch((sys.executable, "-m", "benchmarks.peers.floor", *options), READY)


def _start_mergewatch(around: Surroundings, port: int, workers: int) -> Launch:
    settings = {"MERGEWATCH_DATA_DIR": str(around.folder), "MERGEWATCH_LOG_LEVEL": "warning"}
    return Launch(
        (_program("mergewatch"), "serve", "--port", str(port), "--workers", str(workers)),
        "/health/ready",
        settings,
    )


def _start_mergewatch_with_redis(around: Surroundings, port: int, workers: int) -> Launch:
    launch = _start_mergewatch(around, port, workers)
    return Launch(
        launch.command,
        launch.ready,
        {**launch.environment, "MERGEWATCH_REDIS_URL": around.redis_url or ""},
    )


def _start_fastapi(around: Surroundings, port: int, workers: int) -> Launch:
    options = f"--factory --loop uvloop --http httptools --no-access-log --log-level warning\
        --host {HOST} --port {port} --workers {workers}"
    return Launch(
        (
            sys.executable,
            "-m",
            "uvicorn",
            "benchmarks.peers.application:make_app",
            *options.split(),
        ),
        "/openapi.json",
        {SQLITE_PATH: str(around.folder / SQLITE_FILE)},
    )


def _start_fastapi_with_redis(around: Surroundings, port: int, workers: int) -> Launch:
    launch = _start_fastapi(around, port, workers)
    return Launch(
        launch.command,
        launch.ready,
        {**launch.environment, REDIS_URL: around.redis_url or ""},
    )


def _start_datasette(around: Surroundings, port: int, _workers: int) -> Launch:
    # Its own limit of a second would end the slowest globs; proposals of facets are for people.
    options = f"--host {HOST} --port {port} --setting sql_time_limit_ms 20000\
        --setting suggest_facets off"
    return Launch(
        (_program("datasette"), "serve", str(around.folder / SQLITE_FILE), *options.split()),
        "/-/versions.json",
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


_SQLITE: Final = StoreKind.SQLITE

STACKS: Final = (
    Stack(Service.MERGEWATCH, _SQLITE, CacheKind.PROCESS, _start_mergewatch),
    Stack(Service.MERGEWATCH, _SQLITE, CacheKind.REDIS, _start_mergewatch_with_redis),
    Stack(Service.FASTAPI, _SQLITE, CacheKind.PROCESS, _start_fastapi),
    Stack(Service.FASTAPI, _SQLITE, CacheKind.REDIS, _start_fastapi_with_redis),
    Stack(Service.DATASETTE, _SQLITE, CacheKind.NONE, _start_datasette),
)
# What answers are compared with, and whose sizes the floor takes.
REFERENCE: Final = STACKS[0]
