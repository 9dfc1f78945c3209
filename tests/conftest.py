"""The servers that tests share.

Each test process starts a Redis when its first test asks for it, and an Elasticsearch node if it is
the only process; several share one (`shared_node`). To save the start, an environment variable may
name a server that already runs: `MERGEWATCH_TEST_ELASTICSEARCH_URL`, `MERGEWATCH_TEST_REDIS_URL`. A
missing server is an error; only `--quick` skips a test that asks for one.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from indexing.store import ElasticsearchPlace
from service.cli.garbage_collection import COLLECTED_AFTER
from tests.servers.folder import memory, server_folder
from tests.servers.indices import Indices
from tests.servers.redis import Redis

pytest_plugins = ["tests.quick", "tests.shared_node"]

# The machine may have other work: the time of an example says nothing about the code.
settings.register_profile("mergewatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mergewatch")

# `tmp_path` too is in memory if possible, unless the environment or `--basetemp` says otherwise.
if folder := memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slow tests first: at the end, test processes share only what is short.

    It also keeps those that share what a session loads in one process.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


# Collecting tests makes objects that all stay: each search for garbage among them is in vain.
gc.disable()


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from every later garbage collection.

    It then collects as rarely as a service does, so that commands, which run in this process too,
    need not exempt what exists when they start.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 10, 10)
    gc.enable()


@pytest.fixture(scope="session")
def redis_url(without_servers: None) -> Iterator[str]:
    """One server for all tests of this process; a test that breaks Redis starts its own."""
    url = os.environ.get("MERGEWATCH_TEST_REDIS_URL")
    if url:
        yield url
        return
    with server_folder() as folder, Redis(Path(folder)) as started:
        yield started.url


@pytest.fixture(scope="session")
def shared_indices(elasticsearch_url: str) -> Iterator[Indices]:
    """The indices that the tests of this process share, one after another."""
    yield from _closing(Indices(elasticsearch_url, f"test-{os.getpid()}-shared"))


@pytest.fixture(scope="session")
def fresh_indices(elasticsearch_url: str) -> Iterator[Indices]:
    """Indices that are dropped after every test."""
    yield from _closing(Indices(elasticsearch_url, f"test-{os.getpid()}-fresh"))


def _closing(indices: Indices) -> Iterator[Indices]:
    yield indices
    indices.close()


@pytest.fixture
def elasticsearch_place(request: pytest.FixtureRequest) -> ElasticsearchPlace:
    """A place in the shared node: a new store, or nothing at all for tests that ask for that.

    `pytest.mark.fresh_indices` is for tests about indices: tests that create, change, rebuild or
    count them.
    """
    if request.node.get_closest_marker("fresh_indices"):
        empty: ElasticsearchPlace = request.getfixturevalue("empty_elasticsearch_place")
        return empty
    indices: Indices = request.getfixturevalue("shared_indices")
    indices.renew()
    return indices.place


@pytest.fixture
def empty_elasticsearch_place(fresh_indices: Indices) -> ElasticsearchPlace:
    """A place in the shared node with nothing in it."""
    fresh_indices.drop()
    return fresh_indices.place
