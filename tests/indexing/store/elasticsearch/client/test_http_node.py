"""The connections to a node, against a server that sends exactly the bytes of a test."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import elastic_transport
import pytest
from elastic_transport import ConnectionTimeout, NodeConfig, TlsError

from indexing.store.elasticsearch.client import http_node
from indexing.store.elasticsearch.client.http_connection import HttpConnection
from indexing.store.elasticsearch.client.http_node import HttpNode
from tests.servers.certificates import make_certificate
from tests.servers.ports import HOST

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
# The last one on its connection.
LAST = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@dataclass
class Server:
    """Answers the n-th request of all with the n-th answer, or with the last one."""

    answers: list[bytes | None]
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    # Set when a client has closed its connection.
    left: asyncio.Event = field(default_factory=asyncio.Event)
    # Set when a request has arrived.
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    pieces: int = 1 << 16
    closes: bool = False
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(_length_of(head)))
                self.asked.set()
                answer = self.answers[min(len(self.heads), len(self.answers)) - 1]
                if answer is None:
                    continue
                for start in range(0, len(answer), self.pieces):
                    writer.write(answer[start : start + self.pieces])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


def _length_of(head: bytes) -> int:
    lines = head.decode().lower().split("\r\n")
    return next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)


@asynccontextmanager
async def serving(
    *answers: bytes | None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[Server]:
    server = Server(list(answers), **options)
    listener = await asyncio.start_server(server.serve, HOST, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for writer in server.writers:
            writer.close()


@asynccontextmanager
async def node_of(server: Server, scheme: str = "http", **options: Any) -> AsyncIterator[HttpNode]:
    node = HttpNode(NodeConfig(scheme, HOST, server.port, **options))
    try:
        yield node
    finally:
        await node.close()


async def ask(node: HttpNode, target: str = "/", **options: Any) -> tuple[int, bytes]:
    answer = await node.perform_request("GET", target, request_timeout=10.0, **options)
    return answer.meta.status, answer.body


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'4;name=value\r\n{"a"\r\n3\r\n:1}\r\n0\r\nTrailer: x\r\n\r\n'
)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"{}"),
        (CHUNKED, b'{"a":1}'),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "interim", "empty"],
)
@pytest.mark.parametrize("pieces", [1, 1 << 16])
async def test_a_response_in_pieces_is_read_and_its_connection_is_used_again(
    answer: bytes, body: bytes, pieces: int
) -> None:
    async with serving(answer, pieces=pieces) as server, node_of(server) as node:
        for _ in range(3):
            _, found = await ask(node)
            assert found == body
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        LAST,
    ],
    ids=["no length", "HTTP/1.0", "close"],
)
async def test_a_connection_that_the_server_ends_is_not_used_again(answer: bytes) -> None:
    async with serving(answer, closes=True) as server, node_of(server) as node:
        for _ in range(2):
            assert await ask(node) == (200, b"{}")
    assert server.connections == 2


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = asyncio.Event()
    connection_lost = HttpConnection.connection_lost

    def note(self: HttpConnection, exc: Exception | None) -> None:
        connection_lost(self, exc)
        lost.set()

    monkeypatch.setattr(HttpConnection, "connection_lost", note)
    async with serving(OK, closes=True) as server, node_of(server) as node:
        await ask(node)
        await asyncio.wait_for(lost.wait(), 10)
        assert await ask(node) == (200, b"{}")
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_node, "_MAX_IDLE_SECONDS", 0.0)
    async with serving(OK) as server, node_of(server) as node:
        for _ in range(2):
            await ask(node)
    assert server.connections == 2


@pytest.mark.parametrize("late", [False, True])
async def test_a_response_that_nobody_asked_for_is_never_read_as_that_of_a_request(
    *, late: bool
) -> None:
    wrong = OK.replace(b"{}", b"[]")
    async with serving(OK if late else OK + wrong, OK) as server, node_of(server) as node:
        await ask(node)
        if late:
            server.writers[0].write(wrong)
            await asyncio.wait_for(server.left.wait(), 10)
        assert await ask(node) == (200, b"{}")
    assert server.connections == 2


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with serving(None, OK) as server, node_of(server) as node:
        request = asyncio.create_task(ask(node))
        await asyncio.wait_for(server.asked.wait(), 10)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await asyncio.wait_for(server.left.wait(), 10)
        assert await ask(node) == (200, b"{}")
    assert server.connections == 2


async def test_a_request_without_a_response_in_time_closes_its_connection() -> None:
    async with serving(None) as server, node_of(server) as node:
        with pytest.raises(ConnectionTimeout):
            await node.perform_request("GET", "/", request_timeout=0.05)
        await asyncio.wait_for(server.left.wait(), 10)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        OK[:-1],
        CHUNKED[:-2],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["nothing", "start", "short", "chunks", "SSH", "length", "upgrade", "gzip"],
)
async def test_a_response_that_is_cut_off_or_not_http_is_an_error_of_the_connection(
    answer: bytes,
) -> None:
    async with serving(answer, closes=True) as server, node_of(server) as node:
        with pytest.raises(elastic_transport.ConnectionError):
            await ask(node)


async def test_a_compressed_response_is_decompressed() -> None:
    body = gzip.compress(b"{}")
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
    async with serving(head.encode() + body) as server, node_of(server) as node:
        assert await ask(node) == (200, b"{}")


async def test_there_are_no_more_connections_than_allowed() -> None:
    async with serving(OK, pieces=1) as server, node_of(server, connections_per_node=2) as node:
        assert await asyncio.gather(*(ask(node) for _ in range(10))) == [(200, b"{}")] * 10
    assert server.connections == 2


async def test_a_request_has_the_headers_of_the_node_and_its_own() -> None:
    async with (
        serving(OK) as server,
        node_of(server, path_prefix="/es", headers={"Authorization": "Basic YQ=="}) as node,
    ):
        await node.perform_request("POST", "/a/_search?b=c", b"{}", {"accept": "x"})  # type: ignore[arg-type]
        await node.perform_request("POST", "/_refresh", headers={"authorization": "ApiKey b"})  # type: ignore[arg-type]
        await node.perform_request("GET", "/")
    first, second, third = (head.decode() for head in server.heads)
    assert first.startswith("POST /es/a/_search?b=c HTTP/1.1\r\n")
    assert f"\r\nhost: {HOST}:{server.port}\r\n" in first
    assert "\r\nauthorization: Basic YQ==\r\n" in first
    assert "\r\naccept: x\r\n" in first
    assert "\r\ncontent-length: 2\r\n" in first
    assert server.bodies == [b"{}", b"", b""]
    assert "\r\nauthorization: ApiKey b\r\n" in second
    assert "Basic" not in second
    assert "\r\ncontent-length: 0\r\n" in second
    assert "content-length" not in third


@pytest.mark.parametrize("target", ["/a b", "/a\r\nx: y", "/ä", "a", ""])
async def test_a_target_that_could_hold_a_second_request_is_refused(target: str) -> None:
    async with serving(OK) as server, node_of(server) as node:
        with pytest.raises(ValueError, match="target"):
            await ask(node, target)
        with pytest.raises(ValueError, match="header"):
            await ask(node, headers={"accept": f"x{target}\r\ny: z"})
    assert not server.heads


async def test_connections_are_spread_over_the_addresses_of_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(LAST) as server, serving(LAST) as other:
        found = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 1, 0, 0)),
            *(
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (HOST, each.port))
                for each in (server, other)
            ),
        ]

        async def resolve(*_: object, **__: object) -> list[Any]:
            return found

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        async with node_of(server) as node:
            for _ in range(6):
                assert await ask(node) == (200, b"{}")
    # The preferred address refuses all of them.
    assert server.connections + other.connections == 6
    assert min(server.connections, other.connections) >= 2


async def test_a_node_that_is_gone_is_an_error_of_the_connection() -> None:
    async with serving(OK) as server:
        pass
    async with node_of(server) as node:
        with pytest.raises(elastic_transport.ConnectionError):
            await ask(node)


async def test_requests_in_progress_fail_when_the_node_is_closed() -> None:
    async with serving(None) as server, node_of(server) as node:
        request = asyncio.create_task(ask(node))
        await asyncio.wait_for(server.asked.wait(), 10)
        await node.close()
        with pytest.raises(elastic_transport.ConnectionError):
            await request


async def test_a_node_with_a_trusted_certificate_is_asked_over_tls(tmp_path: Path) -> None:
    file = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    trusting = ssl.create_default_context(cafile=file)
    async with serving(OK, tls=context) as server:
        async with node_of(server, "https", ssl_context=trusting) as node:
            for _ in range(2):
                assert await ask(node) == (200, b"{}")
        assert server.connections == 1
        distrusting = ssl.create_default_context()
        async with node_of(server, "https", ssl_context=distrusting) as node:
            with pytest.raises(TlsError):
                await ask(node)
    assert len(server.heads) == 2


async def test_a_machine_that_answers_no_connection_is_given_up_long_before_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_node, "_CONNECT_SECONDS", 0.1)
    with socket.create_server((HOST, 0), backlog=0) as full:
        # The kernel drops further attempts to connect, as if the machine was off.
        waiting = [socket.socket() for _ in range(3)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            async with node_of(Server([OK], full.getsockname()[1])) as node:
                # It can be sent again: nothing of it was sent.
                with pytest.raises(elastic_transport.ConnectionError) as raised:
                    await ask(node)
        finally:
            for each in waiting:
                each.close()
    assert not isinstance(raised.value, ConnectionTimeout)
    assert not node.has_answered
