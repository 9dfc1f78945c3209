"""The requests of one tenant leave room on a node for those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from indexing.errors import StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client import connection as client
from indexing.store.elasticsearch.client import search_queue
from indexing.store.elasticsearch.client.combined_reads import CombinedReads
from indexing.store.elasticsearch.client.connection import WRITING, Connection, Timeouts
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.search_queue import READS_PER_TENANT, WRITES_PER_TENANT
from indexing.store.elasticsearch.indices.lease import LeaseDocument
from tests.indexing.store.elasticsearch.client.nodes import EMPTY, Nodes, json_response

MORE = max(READS_PER_TENANT, WRITES_PER_TENANT) + 2


class BusyNode:
    """Answers all searches at once but those of the index `slow`, which it holds."""

    def __init__(self, nodes: Nodes) -> None:
        # The number of slow searches that it has begun.
        self.begun = 0
        self._progress = asyncio.Condition()
        self._may_answer = asyncio.Event()
        nodes.handler = self._answer

    async def wait_for(self, begun: int) -> None:
        """Wait until so many slow searches have begun."""
        async with asyncio.timeout(60), self._progress:
            await self._progress.wait_for(lambda: self.begun >= begun)

    def answer_all(self) -> None:
        self._may_answer.set()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return json_response(b'{"_id": "1", "found": false}')
        if request.path == "/_mget":
            return json_response(b'{"docs": [{"_id": "1", "found": false}]}')
        if request.path.startswith("/slow/"):
            async with self._progress:
                self.begun += 1
                self._progress.notify_all()
            await self._may_answer.wait()
        return json_response(EMPTY)


@pytest.fixture
def nodes(aiohttp_server: AiohttpServer) -> Nodes:
    return Nodes(aiohttp_server)


@pytest.fixture
def node(nodes: Nodes) -> BusyNode:
    return BusyNode(nodes)


@pytest.fixture
async def connection(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    # However busy this machine is, no read ends too early.
    monkeypatch.setattr(client, "READING", Timeouts(total=60.0, attempt=60.0))
    async with nodes.connect() as opened:
        yield opened


@asynccontextmanager
async def flooded(
    connection: Connection,
    node: BusyNode,
    tenant: Hashable = "flood",
    *,
    timeouts: Timeouts | None = None,
    begun: int = READS_PER_TENANT,
) -> AsyncIterator[None]:
    """Have more slow searches of one tenant than it may have in progress: so many have begun.

    Inside the context, the task is one of that tenant.
    """
    current_tenant.set(tenant)
    searches = [connection.search("slow", {}, timeouts=timeouts) for _ in range(MORE)]
    slow = [asyncio.create_task(search) for search in searches]
    await node.wait_for(begun)
    yield
    node.answer_all()
    await asyncio.gather(*slow)


async def test_a_read_does_not_wait_for_the_reads_of_another_tenant(
    connection: Connection, node: BusyNode
) -> None:
    async with flooded(connection, node):
        current_tenant.set("other")
        await connection.search("quick", {})
        assert node.begun == READS_PER_TENANT
    assert node.begun == MORE


@pytest.mark.parametrize(
    ("timeouts", "at_once", "limit", "kind"),
    [
        (None, READS_PER_TENANT, "WAIT_SECONDS", "reads"),
        (WRITING, WRITES_PER_TENANT, "WRITE_WAIT_SECONDS", "writes"),
    ],
    ids=["reads", "writes"],
)
async def test_a_request_that_waits_too_long_for_others_of_its_tenant_is_refused(
    connection: Connection,
    node: BusyNode,
    monkeypatch: pytest.MonkeyPatch,
    timeouts: Timeouts | None,
    at_once: int,
    limit: str,
    kind: str,
) -> None:
    async with flooded(connection, node, timeouts=timeouts, begun=at_once):
        monkeypatch.setattr(search_queue, limit, 0.01)
        with pytest.raises(StoreUnavailableError, match=f"too many {kind} at once"):
            await connection.search("quick", {}, timeouts=timeouts)


async def test_a_request_of_a_load_does_not_wait_for_another_tenant_nor_for_reads(
    connection: Connection, node: BusyNode
) -> None:
    async with flooded(connection, node, timeouts=WRITING, begun=WRITES_PER_TENANT):
        await connection.search("quick", {})
        current_tenant.set("other")
        await connection.search("quick", {}, timeouts=WRITING)
        assert node.begun == WRITES_PER_TENANT


async def test_a_refresh_does_not_wait_for_other_requests_of_the_tenant_that_began_it(
    connection: Connection, node: BusyNode
) -> None:
    async with flooded(connection, node, timeouts=WRITING, begun=WRITES_PER_TENANT):
        await connection.refresh("quick")


@pytest.mark.parametrize("timeouts", [None, WRITING], ids=["reads", "writes"])
async def test_background_work_does_not_wait(
    connection: Connection, node: BusyNode, timeouts: Timeouts | None
) -> None:
    async with flooded(connection, node, None, timeouts=timeouts, begun=MORE):
        pass


async def test_documents_that_are_read_for_all_tenants_wait_for_none(
    connection: Connection, node: BusyNode
) -> None:
    async with flooded(connection, node):
        # The tenant of the first caller, whose read others join.
        assert await CombinedReads(connection).get_many([Place("tests", "1", "r")]) == [None]


async def test_a_lease_does_not_wait_for_the_reads_of_its_holder(
    connection: Connection, node: BusyNode
) -> None:
    async with flooded(connection, node):
        assert await LeaseDocument(connection, "control", "1").find() is None
