"""Which node gets a request, while another one does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from elastic_transport import BaseNode, NodeConfig
from pytest_aiohttp.plugin import AiohttpServer

from indexing.store.elasticsearch.client import node_pool
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.http_node import HttpNode
from indexing.store.elasticsearch.client.node_pool import (
    PAUSE_AFTER_ERROR_SECONDS,
    PAUSE_SECONDS,
    AnsweringNodes,
)
from tests.indexing.store.elasticsearch.client.nodes import Nodes, json_response
from tests.servers.ports import HOST


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(node_pool, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def pool() -> AnsweringNodes:
    configs = [NodeConfig("http", HOST, port) for port in (1, 2)]
    return AnsweringNodes(configs, HttpNode, randomize_nodes=False)


def fail(pool: AnsweringNodes, node: BaseNode, *, answering: bool) -> None:
    assert isinstance(node, HttpNode)
    node.has_answered = answering
    pool.mark_dead(node)


def test_nodes_take_turns(pool: AnsweringNodes) -> None:
    taken = [pool.get() for _ in range(4)]
    assert taken[:2] == taken[2:]
    assert {*taken} == {*pool.all()}


def test_one_request_at_a_time_tries_a_node_that_did_not_answer(
    pool: AnsweringNodes, clock: SimpleNamespace
) -> None:
    failed, other = pool.all()
    for _ in range(5):
        # Those that were sent there at the same time.
        fail(pool, failed, answering=False)
    assert {pool.get() for _ in range(10)} == {other}
    for _ in range(3):
        clock.now += PAUSE_SECONDS
        assert [pool.get() for _ in range(10)].count(failed) == 1
    pool.mark_live(failed)
    assert [pool.get() for _ in range(10)].count(failed) == 5


def test_a_node_that_answers_with_an_error_is_tried_again_soon(
    pool: AnsweringNodes, clock: SimpleNamespace
) -> None:
    failed, other = pool.all()
    fail(pool, failed, answering=True)
    assert {pool.get() for _ in range(10)} == {other}
    clock.now += PAUSE_AFTER_ERROR_SECONDS
    assert [pool.get() for _ in range(10)].count(failed) == 1


def test_if_no_node_answers_all_are_tried(pool: AnsweringNodes, clock: SimpleNamespace) -> None:
    for node in pool.all():
        fail(pool, node, answering=False)
    assert {pool.get() for _ in range(2)} == {*pool.all()}
    clock.now += PAUSE_SECONDS
    assert {pool.get() for _ in range(2)} == {*pool.all()}
    pool.mark_live(pool.all()[0])
    assert {pool.get() for _ in range(10)} == {pool.all()[0]}


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, list[object]]]:
    """The URL of a node that never answers, and its connections."""
    accepted: list[object] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(accept, HOST, 0)
    yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}", accepted
    server.close()


async def test_a_node_that_does_not_answer_is_tried_once_in_a_while(
    aiohttp_server: AiohttpServer, silent: tuple[str, list[object]], clock: SimpleNamespace
) -> None:
    url, accepted = silent
    nodes = Nodes(aiohttp_server)
    nodes.say(lambda: json_response(b"{}"))
    async with nodes.connect() as single:
        (answering,) = single._transport.node_pool.all()
    connection = Connection([answering.base_url, url])

    async def ask_often() -> None:
        requests = (connection.request("GET", "/", timeouts=WRITING) for _ in range(8))
        assert await asyncio.gather(*requests) == [{}] * 8

    try:
        await ask_often()
        first = len(accepted)
        assert first > 0
        await ask_often()
        assert len(accepted) == first
        for tried in range(1, 4):
            clock.now += PAUSE_SECONDS
            await ask_often()
            assert len(accepted) == first + tried
    finally:
        await connection.close()
