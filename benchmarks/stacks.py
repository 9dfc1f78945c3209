"""The measured stacks: each combination of a service, a store and a cache is one table row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from benchmarks.peers.settings import PEER_SETTINGS, Variables
from benchmarks.requests.dialects import Dialect, datasette_path, elasticsearch_path, service_path
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
    """The code that answers."""

    MERGEWATCH = "mergewatch"
    FASTAPI = "FastAPI"
    DATASETTE = "Datasette"
    # No service: the load itself sends the searches that the service would send.
    ITSELF = "the store itself"


class StoreKind(Enum):
    """The store of the data."""

    SQLITE = "SQLite"
    ELASTICSEARCH = "Elasticsearch"


class CacheKind(Enum):
    """The cache of complete responses."""

    NONE = "none"
    PROCESS = "in process"
    REDIS = "Redis"


@dataclass(frozen=True, slots=True)
class Backends:
    """The servers and data that the stacks may use; a URL is `None` if that server does not run.

    `folder` has the SQLite file, `prefix` is that of the indices.
    """

    folder: Path
    redis_url: str | None = None
    elasticsearch_url: str | None = None
    elasticsearch_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """One row of the table."""

    service: Service
    store: StoreKind
    cache: CacheKind

    @property
    def name(self) -> str:
        """Return the stack's name in figures and targets."""
        return name_of(self.service, self.store, self.cache)

    @property
    def has_workers(self) -> bool:
        """Return whether it can run several processes."""
        return self.service in (Service.MERGEWATCH, Service.FASTAPI)

    def dialect(self, backends: Backends) -> Dialect:
        """Return the form of this stack's requests."""
        if self.service is Service.DATASETTE:
            return datasette_path
        if self.service is Service.ITSELF:
            return elasticsearch_path(backends.elasticsearch_prefix)
        return service_path

    def runs_in(self, backends: Backends) -> bool:
        """Return whether all servers that it needs run."""
        return not (
            (self.cache is CacheKind.REDIS and backends.redis_url is None)
            or (self.store is StoreKind.ELASTICSEARCH and backends.elasticsearch_url is None)
        )

    def takes_part(self, operation: Operation, *, repeated: bool) -> bool:
        """Return whether the stack takes part in that measurement.

        Repeated requests measure caches; numbered requests are the same with and without Redis.
        """
        if self.service is Service.ITSELF and (
            operation.page > 1 or operation.kind not in (Kind.EVENTS, Kind.SEARCH)
        ):
            return False
        if not repeated:
            return self.cache is not CacheKind.REDIS
        if self.service is not Service.MERGEWATCH and not operation.is_cached_by_peers:
            return False
        return self.cache is not CacheKind.NONE

    def launch(self, backends: Backends, port: int, workers: int) -> Launch | None:
        """Return how to start it; `None` if it runs already."""
        if self.service is Service.ITSELF:
            return None
        if self.service is Service.DATASETTE:
            return _launch_datasette(backends, port)
        if self.service is Service.FASTAPI:
            launch, names = _launch_fastapi(backends, port, workers), PEER_SETTINGS
        else:
            launch, names = _launch_mergewatch(backends, port, workers), OWN_SETTINGS
        environment = dict(launch.environment)
        if self.store is StoreKind.ELASTICSEARCH:
            environment[names.elasticsearch_url] = backends.elasticsearch_url or ""
            environment[names.elasticsearch_prefix] = backends.elasticsearch_prefix
        if self.cache is CacheKind.REDIS:
            environment[names.redis_url] = backends.redis_url or ""
        return replace(launch, environment=environment)


def name_of(service: Service, store: StoreKind, cache: CacheKind) -> str:
    """Return the name of that combination."""
    return f"{service.value}, {store.value}" + (", Redis" if cache is CacheKind.REDIS else "")


def launch_floor(sizes: Sequence[int], port: int, workers: int) -> Launch:
    """Return how to start the floor, with a constant of each size."""
    options = ("--port", str(port), "--workers", str(workers), *map(str, sizes))
    return Launch((sys.executable, "-m", "benchmarks.peers.floor", *options), "/ready")


def _launch_mergewatch(backends: Backends, port: int, workers: int) -> Launch:
    options = f"serve --bind {HOST} --port {port} --workers {workers}"
    return Launch(
        (_program("mergewatch"), *options.split()),
        "/health/ready",
        {OWN_SETTINGS.sqlite_path: str(backends.folder), "MERGEWATCH_LOG_LEVEL": "warning"},
    )


def _launch_fastapi(backends: Backends, port: int, workers: int) -> Launch:
    options = (
        "--factory --loop uvloop --http httptools --no-access-log --log-level warning"
        f" --host {HOST} --port {port} --workers {workers}"
    )
    application = "benchmarks.peers.application:make_app"
    return Launch(
        (sys.executable, "-m", "uvicorn", application, *options.split()),
        "/openapi.json",
        {PEER_SETTINGS.sqlite_path: str(backends.folder / SQLITE_FILE)},
    )


def _launch_datasette(backends: Backends, port: int) -> Launch:
    # Datasette's default limit of a second would stop the slowest globs; facets are for people.
    options = (
        f"--host {HOST} --port {port}"
        " --setting sql_time_limit_ms 20000 --setting suggest_facets off"
    )
    return Launch(
        (_program("datasette"), "serve", str(backends.folder / SQLITE_FILE), *options.split()),
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
# The answers of other stacks must match this one's, and the floor uses their sizes.
REFERENCE: Final = STACKS[0]
# The same over the other kind of store.
OVER_ELASTICSEARCH: Final = replace(REFERENCE, store=StoreKind.ELASTICSEARCH)
