"""The servers that stores and caches need: real ones, of the tests' own starters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.running.cores import Cores, pinned
from tests.servers.elasticsearch import Node
from tests.servers.redis import Redis

# As much as a small machine gives; the data of a full run has room in it and in the page cache.
HEAP = "2g"


@contextmanager
def redis_running(folder: Path, cores: Cores) -> Iterator[str]:
    """Have a Redis run, beside the load; gives its URL."""
    with pinned(cores.client), Redis(folder) as redis:
        yield redis.url


@contextmanager
def elasticsearch_running(folder: Path, cores: Cores) -> Iterator[str]:
    """Have a node run, beside the load, on the data of the last time; gives its URL."""
    with pinned(cores.client), Node(folder, heap=HEAP, quick_start=False) as node:
        yield node.url
