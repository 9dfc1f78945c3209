"""A cluster of three nodes, one of which is killed while clients send requests."""

from __future__ import annotations

import asyncio
import http
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from indexing.store import ElasticsearchPlace
from tests.faults.clients import Clients, clients_of
from tests.faults.serving import serving
from tests.faults.stock import EVENTS_PAGE, TARGETS, fill
from tests.servers.elasticsearch import Cluster, Node
from tests.servers.folder import server_folder

PREFIX = "three"


@dataclass(frozen=True)
class Three:
    """A cluster with a filled store, and the key that reads it."""

    cluster: Cluster
    key: str = field(repr=False)

    @property
    def place(self) -> ElasticsearchPlace:
        return ElasticsearchPlace(tuple(self.cluster.urls), PREFIX)

    def running(self) -> Node:
        return next(node for node in self.cluster.nodes if node.alive)

    def wait_for_loss(self) -> None:
        """Wait until the other nodes have noticed the loss."""
        left = self.running()
        alive = sum(node.alive for node in self.cluster.nodes)
        left.process.wait_until(lambda: count_nodes(left) == alive, "the loss of a node")

    def mend(self) -> None:
        """Restart all stopped nodes, and wait until every shard has its copies again."""
        for node in self.cluster.nodes:
            if not node.alive:
                node.start()
        self.running().wait_for("green", len(self.cluster.nodes))

    def holder_of(self, index: str) -> Node:
        """The node with the non-empty shard of an index without replicas."""
        # Restarted nodes receive shards from the others: wait until no relocation is in progress.
        self.running().ask("/_cluster/health?wait_for_no_relocating_shards=true&timeout=60s")
        self.running().ask(f"/{index}/_refresh", "POST")
        _, shards = self.running().ask(f"/_cat/shards/{index}?format=json")
        names = {shard["node"] for shard in shards if int(shard["docs"] or 0)}
        return next(node for node in self.cluster.nodes if node.name in names)


def count_nodes(asked: Node) -> int | None:
    """The number of nodes in its cluster, or None while no master is elected."""
    status, health = asked.ask("/_cluster/health")
    return int(health["number_of_nodes"]) if status == http.HTTPStatus.OK else None


@pytest.fixture(scope="module")
def three() -> Iterator[Three]:
    with (
        server_folder() as folder,
        Cluster(Path(folder), heap="256m") as cluster,
    ):
        key = asyncio.run(fill(ElasticsearchPlace(tuple(cluster.urls), PREFIX)))
        yield Three(cluster, key)


@pytest.fixture
async def clients(three: Three) -> AsyncIterator[Clients]:
    await asyncio.to_thread(three.mend)
    with serving(three.place) as running:
        async with clients_of(running.base, three.key) as clients:
            await clients.learn(TARGETS)
            yield clients


@pytest.mark.parametrize("elected", [True, False], ids=["the master", "another node"])
async def test_two_of_three_nodes_answer_for_the_one_that_was_killed(
    three: Three, clients: Clients, elected: bool
) -> None:
    master = three.cluster.elected()
    killed = next(node for node in three.cluster.nodes if (node is master) == elected)
    async with clients.under_load() as seen:
        await seen.until_right(clients.first)
        killed.kill()
        # Two nodes are enough: to elect a master, and to hold a copy of everything.
        await asyncio.to_thread(three.wait_for_loss)
        seen.start_over()
        await seen.until_right(clients.first)
    await clients.until_right()
    assert not killed.alive


async def test_a_log_whose_only_copy_is_gone_is_unavailable_and_never_short(
    three: Three, clients: Clients
) -> None:
    slice_of_some = f"{PREFIX}-events-2026-08"
    settings = {"index": {"auto_expand_replicas": "false", "number_of_replicas": 0}}
    status, _ = three.running().ask(f"/{slice_of_some}/_settings", "PUT", settings)
    assert status == 200
    await asyncio.to_thread(three.mend)
    killed = three.holder_of(slice_of_some)
    killed.kill()
    await asyncio.to_thread(three.wait_for_loss)
    others = [target for target in clients.first if target != EVENTS_PAGE]
    async with clients.under_load() as seen:
        # Each response is compared byte for byte, so a page without that slice would fail the test.
        await seen.until_right(others)
        # The page may be cached at first.
        await seen.until_unavailable(seen.statuses[503] + 1)
        seen.start_over()
        await seen.until_unavailable(seen.statuses[503] + 3)
        assert EVENTS_PAGE not in seen.right
    killed.start()
    await clients.until_right()
