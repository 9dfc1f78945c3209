"""Bulk requests over a stand-in for a node: their pieces, deferred documents, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client import bulk, write_priority
from indexing.store.elasticsearch.client.bulk import Operation, send, send_each
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.write_priority import SMALL_WRITE
from tests.indexing.store.elasticsearch.client.nodes import Nodes, json_response

DEFERRED = {"type": "es_rejected_execution_exception", "reason": "the queue is full"}
GONE = {"type": "index_not_found_exception", "reason": "no such index"}
REFUSED = {"type": "document_parsing_exception", "reason": "not a number"}
CONFLICT = {"type": "version_conflict_engine_exception", "reason": "exists"}


class BulkNodes(Nodes):
    """Stand-ins that execute each document, unless `failures` has an error for its id.

    Errors of a document are given one after another; `sent` has the ids of each request.
    """

    def __init__(self, start: AiohttpServer) -> None:
        super().__init__(start)
        self.failures: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.sent: list[list[str]] = []
        self.handler = self._execute

    async def _execute(self, request: web.Request) -> web.Response:
        lines = (await request.read()).splitlines()
        ids = [orjson.loads(line)["delete"]["_id"] for line in lines]
        self.sent.append(ids)
        items = []
        for each in ids:
            failures = self.failures.get(each)
            if failures:
                status, error = failures.pop(0)
                items.append({"delete": {"status": status, "error": error}})
            else:
                items.append({"delete": {"status": 200, "_version": 1}})
        return json_response(orjson.dumps({"items": items}))


@pytest.fixture
def nodes(aiohttp_server: AiohttpServer, monkeypatch: pytest.MonkeyPatch) -> BulkNodes:
    monkeypatch.setattr(bulk, "_FIRST_PAUSE", 0.0)
    return BulkNodes(aiohttp_server)


def deletions(count: int) -> list[Operation]:
    return [Operation("delete", "tests", f"{number:03}", None) for number in range(count)]


def ids_of(operations: Sequence[Operation]) -> list[str]:
    return [operation.id for operation in operations]


def test_a_write_with_a_guard_names_the_version_that_it_replaces() -> None:
    operation = Operation("index", "tests", "1", "acme", {"a": 1}, {"if_seq_no": 7})
    about, source = map(orjson.loads, operation.encode().splitlines())
    assert about == {"index": {"_index": "tests", "_id": "1", "routing": "acme", "if_seq_no": 7}}
    assert source == {"a": 1}


async def test_only_deferred_documents_are_sent_again(nodes: BulkNodes) -> None:
    nodes.failures = {"001": [(429, DEFERRED), (503, DEFERRED)], "002": [(409, CONFLICT)]}
    async with nodes.connect() as connection:
        outcomes = await send(connection, deletions(4), visible=False)
    assert nodes.sent == [["000", "001", "002", "003"], ["001"], ["001"]]
    assert [outcome.done for outcome in outcomes] == [True, True, False, True]
    assert outcomes[2].conflicts


class Clock:
    """A clock that is half the time of a write later at each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += WRITING.total / 2
        return self.seconds


async def test_documents_that_stay_deferred_are_unavailable_in_time(
    nodes: BulkNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "time", Clock())
    nodes.failures = {"000": [(429, DEFERRED)] * 100}
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match=r"puts off documents .*the queue is full"):
            await send(connection, deletions(2), visible=False)
    assert len(nodes.sent) == 3


@pytest.mark.parametrize(
    ("tenant", "limits"), [(None, "_PIECE_"), ("acme", "_SERVED_PIECE_")], ids=["load", "served"]
)
@pytest.mark.parametrize(
    ("most", "sizes"),
    [({"OPERATIONS": 3}, [3, 3, 1]), ({"BYTES": 2}, [2, 2, 2, 1]), ({"BYTES": 0}, [1] * 7)],
    ids=["operations", "bytes", "large documents"],
)
async def test_many_documents_are_sent_in_pieces_in_their_order(
    nodes: BulkNodes,
    monkeypatch: pytest.MonkeyPatch,
    tenant: str | None,
    limits: str,
    most: dict[str, int],
    sizes: list[int],
) -> None:
    """Those for a tenant have limits of their own."""
    operations = deletions(7)
    length = len(operations[0].encode())
    for name, number in most.items():
        monkeypatch.setattr(bulk, limits + name, number * length if name == "BYTES" else number)
    current_tenant.set(tenant)
    async with nodes.connect() as connection:
        outcomes = await send_each(connection, operations)
    assert [len(ids) for ids in nodes.sent] == sizes
    assert [each for ids in nodes.sent for each in ids] == ids_of(operations)
    assert len(outcomes) == 7


async def test_a_large_load_gives_way_to_a_small_write(
    nodes: BulkNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_priority, "WAIT_SECONDS", 60)
    large = deletions(SMALL_WRITE + 1)

    async def load() -> None:
        current_tenant.set("flood")
        await send_each(connection, large)

    async with nodes.connect() as connection:
        with connection.write_priority.small_write():
            loading = asyncio.create_task(load())
            for _ in range(5):
                await send_each(connection, deletions(1))
        await loading
    assert nodes.sent == [["000"]] * 5 + [ids_of(large)]


@pytest.mark.parametrize(
    ("failure", "may_be_gone", "raised"),
    [
        ((404, GONE), True, None),
        ((404, GONE), False, StoreUnavailableError),
        ((400, REFUSED), True, StoreError),
        ((409, CONFLICT), False, None),
    ],
)
async def test_a_failure_is_raised_unless_the_caller_expects_it(
    nodes: BulkNodes,
    failure: tuple[int, dict[str, str]],
    may_be_gone: bool,
    raised: type[StoreError] | None,
) -> None:
    nodes.failures = {"001": [failure]}
    async with nodes.connect() as connection:
        sending = send(connection, deletions(3), visible=False, may_be_gone=may_be_gone)
        if raised is not None:
            with pytest.raises(raised, match=failure[1]["reason"]):
                await sending
        else:
            assert [outcome.done for outcome in await sending] == [True, False, True]
    # What comes after the failed one is executed too.
    assert nodes.sent == [["000", "001", "002"]]
