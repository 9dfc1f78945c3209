"""Fixtures: the real application over a real store, on a real socket."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from indexing.models.keys import Scope
from indexing.store import ElasticsearchPlace
from service.app import create_app
from service.cache import redis_connection, redis_connector
from service.cache.invalidation import InvalidatingStore
from service.config.settings import LogFormat, LogLevel, Settings
from service.context import CONTEXT
from service.logs import configure_logging
from service.server.listener import http_url
from service.server.process import bind
from service.server.process import start as start_app
from tests.builders import GADGETS, NOON, WIDGETS
from tests.new_stores import open_new_store
from tests.servers.indices import Indices
from tests.service.front_door import Clock, FrontDoor
from tests.service.processes import TIMEOUT, Service, Start

if TYPE_CHECKING:
    from service.tracing.tracing import Tracing


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log as the service does, and restore the logging of the process afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging(LogLevel.ERROR, LogFormat.JSON)
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture(autouse=True)
def patient_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a look-up in Redis as long as it takes: on a busy machine even Redis is silent at times.

    A look-up that fails is a cache miss, so tests that count reads of the store would fail.
    """
    limit_redis(monkeypatch, TIMEOUT)


def limit_redis(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the time limit of look-ups in Redis, until the end of the test."""
    for module in (redis_connection, redis_connector):
        monkeypatch.setattr(module, "LIMIT_SECONDS", seconds)


# Every route is tested on each store and each cache. Without Redis, the cache is in process.
STACKS = ("sqlite", "sqlite and redis", "elasticsearch")
# The contracts compare every read of Elasticsearch through Redis with the store itself. So routes
# need this stack only in tests about cached answers.
EVERY_STACK = (*STACKS, "elasticsearch and redis")

on_every_stack = pytest.mark.parametrize("stack", EVERY_STACK, indirect=True)


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """The settings of a service over an empty store."""
    return make_stack(request, tmp_path)


def make_stack(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """The settings of the stack that the fixture's parameter names, over an empty store."""
    chosen = Settings(data_dir=tmp_path)
    if "redis" in request.param:
        chosen = replace(chosen, redis_url=request.getfixturevalue("redis_url"))
    if "elasticsearch" in request.param:
        place: ElasticsearchPlace = request.getfixturevalue("elasticsearch_place")
        chosen = replace(chosen, elasticsearch_url=place.urls, elasticsearch_prefix=place.prefix)
    return chosen


@pytest.fixture(params=STACKS, scope="module")
def shared_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """The settings of a service over a store that was empty before the module's first test."""
    chosen = Settings(data_dir=tmp_path_factory.mktemp("shared"))
    if "redis" in request.param:
        chosen = replace(chosen, redis_url=request.getfixturevalue("redis_url"))
    if "elasticsearch" not in request.param:
        yield chosen
        return
    indices: Indices = request.getfixturevalue("shared_indices")
    with indices.reserve() as place:
        yield replace(chosen, elasticsearch_url=place.urls, elasticsearch_prefix=place.prefix)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_door(shared_stack: Settings) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(shared_stack):
        yield opened


@pytest.fixture
def shared_door(module_door: FrontDoor) -> FrontDoor:
    """The `door` of all tests of a module that ask for it, on one event loop.

    It is for tests that depend on nothing that others of the module write. No test of that module
    may ask for another store in Elasticsearch.
    """
    module_door.clock.now = NOON
    return module_door


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_open(shared_stack: Settings) -> AsyncIterator[FrontDoor]:
    """The `open_` of all tests of a module that ask for it: as `shared_door`."""
    async for opened in open_door(replace(shared_stack, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and "shared_stack" in item.fixturenames:
        item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture
async def door(stack: Settings) -> AsyncIterator[FrontDoor]:
    """A service with two repositories of one owner, and a key that reads both."""
    async for opened in open_door(stack):
        yield opened


async def open_door(settings: Settings, tracing: Tracing | None = None) -> AsyncIterator[FrontDoor]:
    store = await open_new_store(settings.store)
    await store.ensure_repository(WIDGETS)
    await store.ensure_repository(GADGETS)
    clock = Clock()
    with bind("127.0.0.1", 0) as listener:
        app = create_app(settings, store, clock=clock, tracing=tracing)
        runner = await start_app(app, listener)
        async with aiohttp.ClientSession() as client:
            # A test's writes invalidate the cache, as the service's own writes do.
            writer = runner.app[CONTEXT].writer
            assert isinstance(writer, InvalidatingStore)
            opened = FrontDoor(http_url(listener), client, writer, clock, runner, settings)
            opened.key = await opened.new_key()
            try:
                yield opened
            finally:
                # Without `finally`, a test that fails inside its own loop over this generator would
                # skip it.
                await runner.cleanup()


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    """The `door` of the default stack alone: SQLite, and a cache in process."""
    async for opened in open_door(Settings(data_dir=tmp_path)):
        yield opened


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Service] = []

    def run(**environment: str) -> Service:
        started.append(Service(tmp_path, **environment))
        return started[-1]

    yield run
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.communicate(timeout=TIMEOUT)
        if service.process.stderr is not None:
            service.process.stderr.close()


@pytest.fixture
async def open_(stack: Settings) -> AsyncIterator[FrontDoor]:
    """A service that accepts results, and a key with all permissions."""
    async for opened in open_door(replace(stack, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened
