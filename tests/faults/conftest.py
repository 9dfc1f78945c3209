"""An Elasticsearch node for these tests alone, because they break it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from indexing.store import ElasticsearchPlace
from tests.faults.stock import fill
from tests.servers.elasticsearch import Node
from tests.servers.folder import server_folder

PREFIX = "faults"


@dataclass(frozen=True)
class Stocked:
    """A node with a filled store, and the key that reads it."""

    node: Node
    key: str = field(repr=False)

    @property
    def place(self) -> ElasticsearchPlace:
        return self.through(self.node.url)

    def through(self, url: str) -> ElasticsearchPlace:
        """The same store, reached through that address."""
        return ElasticsearchPlace((url,), PREFIX)


@pytest.fixture(scope="session")
def stocked() -> Iterator[Stocked]:
    with (
        server_folder() as folder,
        Node(Path(folder)) as node,
    ):
        key = asyncio.run(fill(ElasticsearchPlace((node.url,), PREFIX)))
        yield Stocked(node, key)
