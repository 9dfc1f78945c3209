"""Runs the servers of stores and caches: real ones, with the starters of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.running.cores import Cores, pinned
from tests.servers.elasticsearch import Node
from tests.servers.redis import Redis

Server = TypeVar("Server")

# The heap of a small machine; the data of a full run fits into it and the page cache.
HEAP: Final = "2g"


@contextmanager
def redis_running(folder: Path, cores: Cores) -> Iterator[str]:
    """Run a Redis on the load's cores; yield its URL."""
    with _started_on(cores.client, Redis(folder)) as redis:
        yield redis.url


@contextmanager
def elasticsearch_running(folder: Path, cores: Cores) -> Iterator[str]:
    """Run a node on the load's cores, with the data of the last run; yield its URL."""
    with _started_on(cores.client, Node(folder, heap=HEAP, quick_start=False)) as node:
        yield node.url


@contextmanager
def _started_on(cores: frozenset[int], server: AbstractContextManager[Server]) -> Iterator[Server]:
    """Run a server on those cores; this process keeps its own, and so does what it starts later."""
    with ExitStack() as exits:
        with pinned(cores):
            started = exits.enter_context(server)
        yield started
