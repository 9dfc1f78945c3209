"""Who is measured: each combination of a service, a store and a cache is one line of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from benchmarks.peers.settings import PEER_SETTINGS, Variables
from benchmarks.requests.dialects import Dialect, ask_datasette, ask_elasticsearch, ask_service
from benchmarks.requests.operations import Kind, Operation
from benchmarks.running.processes import HOST, Launch

SQLITE_FILE: Final = "mergewatch.db"
OWN_SETTINGS: Final = Variables(
    sqlite_path="MERGEWATCH_DATA_DIR",
    redis_url="MERGEWATCH_REDIS_URL",
    elasticsearch_url="MERGEWATCH_ELASTICSEARCH_URL",
    elasticsearch_prefix="MERGEWATCH_ELASTICSEARCH_PREFIX",
)


class Service(Enum):
    """Whose code answers."""

    MERGEWATCH = "mergewatch"
    FASTAPI = "FastAPI"
    DATASETTE = "Datasette"
    # Nobody's: the searches that the service would send, sent by the load itself.
    ITSELF = "the store itself"


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
    """What the stacks may use; a URL is `None` where that server does not run.

    The folder is that of the SQLite file, the prefix that of the indices.
    """

    folder: Path
    redis_url: str | None = None
    elasticsearch_url: str | None = None
    elasticsearch_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """One line of the table."""

    service: Service
    store: StoreKind
    cache: CacheKind

    @property
    def name(self) -> str:
        """The stack in figures and targets."""
        return name_of(self.service, self.store, self.cache)

    @property
    def has_workers(self) -> bool:
        """Whether it can be told to use several processes."""
        return self.service in (Service.MERGEWATCH, Service.FASTAPI)

    def dialect(self, around: Surroundings) -> Dialect:
        """How this stack is asked."""
        if self.service is Service.DATASETTE:
            return ask_datasette
        if self.service is Service.ITSELF:
            return ask_elasticsearch(around.elasticsearch_prefix)
        return ask_service

    def runs_in(self, around: Surroundings) -> bool:
        """Whether all that it needs is there."""
        return not (
            (self.cache is CacheKind.REDIS and around.redis_url is None)
            or (self.store is StoreKind.ELASTICSEARCH and around.elasticsearch_url is None)
        )

    def takes_part(self, operation: Operation, *, repeated: bool) -> bool:
        """Whether the stack has something to show there.

        What is asked repeatedly is for caches; where nothing is kept that is all there is, and
        Redis has no part in it.
        """
        if self.service is Service.ITSELF and (
            operation.page > 1 or operation.kind not in (Kind.EVENTS, Kind.SEARCH)
        ):
            return False
        if not operation.kept:
            return repeated and self.cache is not CacheKind.REDIS
        return self.cache is not (CacheKind.NONE if repeated else CacheKind.REDIS)

    def launch(self, around: Surroundings, port: int, workers: int) -> Launch | None:
        """How it is started; `None` for what runs already."""
        if self.service is Service.ITSELF:
            return None
        if self.service is Service.DATASETTE:
            return _launch_datasette(around, port)
        if self.service is Service.FASTAPI:
            launch, names = _launch_fastapi(around, port, workers), PEER_SETTINGS
        else:
            launch, names = _launch_mergewatch(around, port, workers), OWN_SETTINGS
        environment = dict(launch.environment)
        if self.store is StoreKind.ELASTICSEARCH:
            environment[names.elasticsearch_url] = around.elasticsearch_url or ""
            environment[names.elasticsearch_prefix] = around.elasticsearch_prefix
        if self.cache is CacheKind.REDIS:
            environment[names.redis_url] = around.redis_url or ""
        return replace(launch, environment=environment)


def name_of(service: Service, store: StoreKind, cache: CacheKind) -> str:
    """The name of that combination."""
    return f"{service.value}, {store.value}" + (", Redis" if cache is CacheKind.REDIS else "")


def launch_floor(sizes: Sequence[int], port: int, workers: int) -> Launch:
    """The floor, with a constant of each size."""
    options = ("--port", str(port), "--workers", str(workers), *map(str, sizes))
    return Launch((sys.executable, "-m", "benchmarks.peers.floor", *options), "/ready")


def _launch_mergewatch(around: Surroundings, port: int, workers: int) -> Launch:
    options = f"serve --bind {HOST} --port {port} --workers {workers}"
    return Launch(
        (_program("mergewatch"), *options.split()),
        "/health/ready",
        {OWN_SETTINGS.sqlite_path: str(around.folder), "MERGEWATCH_LOG_LEVEL": "warning"},
    )


def _launch_fastapi(around: Surroundings, port: int, workers: int) -> Launch:
    options = (
        "--factory --loop uvloop --http httptools --no-access-log --log-level warning"
        f" --host {HOST} --port {port} --workers {workers}"
    )
    application = "benchmarks.peers.application:make_app"
    return Launch(
        (sys.executable, "-m", "uvicorn", application, *options.split()),
        "/openapi.json",
        {PEER_SETTINGS.sqlite_path: str(around.folder / SQLITE_FILE)},
    )


def _launch_datasette(around: Surroundings, port: int) -> Launch:
    # Its own limit of a second would end the slowest globs; proposals of facets are for people.
    options = (
        f"--host {HOST} --port {port}"
        " --setting sql_time_limit_ms 20000 --setting suggest_facets off"
    )
    return Launch(
        (_program("datasette"), "serve", str(around.folder / SQLITE_FILE), *options.split()),
        "/-/versions.json",
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


STACKS: Final = (
    Stack(Service.MERGEWATCH, StoreKind.SQLITE, CacheKind.PROCESS),
    Stack(Service.MERGEWATCH, StoreKind.SQLITE, CacheKind.REDIS),
    Stack(Service.FASTAPI, StoreKind.SQLITE, CacheKind.PROCESS),
    Stack(Service.FASTAPI, StoreKind.SQLITE, CacheKind.REDIS),
    Stack(Service.DATASETTE, StoreKind.SQLITE, CacheKind.NONE),
    Stack(Service.MERGEWATCH, StoreKind.ELASTICSEARCH, CacheKind.PROCESS),
    Stack(Service.MERGEWATCH, StoreKind.ELASTICSEARCH, CacheKind.REDIS),
    Stack(Service.FASTAPI, StoreKind.ELASTICSEARCH, CacheKind.PROCESS),
    Stack(Service.FASTAPI, StoreKind.ELASTICSEARCH, CacheKind.REDIS),
    Stack(Service.ITSELF, StoreKind.ELASTICSEARCH, CacheKind.NONE),
)
# What answers are compared with, and whose sizes the floor takes.
REFERENCE: Final = STACKS[0]
