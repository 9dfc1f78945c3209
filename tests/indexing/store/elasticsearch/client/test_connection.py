"""Responses that no healthy node gives, and what is sent to a node, over a stand-in for it."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client import connection as client
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import Connection, Timeouts
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.client.existing_ids import find_existing
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.indices import existing
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.lease import LeaseDocument
from indexing.store.elasticsearch.indices.templates import ensure_templates, resolve
from tests.indexing.store.elasticsearch.client.nodes import (
    EMPTY,
    PASSWORD,
    Nodes,
    failure_response,
    json_response,
)


@pytest.fixture
def nodes(aiohttp_server: AiohttpServer) -> Nodes:
    return Nodes(aiohttp_server)


async def test_a_response_that_does_not_name_the_product_is_used(nodes: Nodes) -> None:
    nodes.say(lambda: json_response(EMPTY))
    async with nodes.connect() as connection:
        for _ in range(2):
            assert (await connection.search("events", {}))["hits"] == {"hits": []}


async def test_deprecation_warnings_of_the_cluster_are_dropped(nodes: Nodes) -> None:
    # pytest raises every warning.
    nodes.say(lambda: json_response(EMPTY, Warning='299 Elasticsearch-9.0.0 "deprecated"'))
    async with nodes.connect() as connection:
        assert (await connection.search("events", {}))["hits"] == {"hits": []}


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.Response(body=b"<html>a proxy</html>", content_type="text/html"),
        lambda: web.Response(body=b"\xff\xfe", content_type="application/octet-stream"),
        lambda: json_response(b'{"hits": '),
    ],
    ids=["a page", "bytes", "half a document"],
)
async def test_what_no_node_says_means_unavailable(
    nodes: Nodes, response: Callable[[], web.Response]
) -> None:
    nodes.say(response)
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="gives no readable answer"):
            await connection.search("events", {})


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, "<html>another service</html>"),
        (404, '{"message": "no Route matched"}'),
        (400, '{"error": "no handler found for uri [/es/events/_search]", "status": 400}'),
    ],
)
async def test_a_failure_that_no_node_explains_names_the_address_and_the_status(
    nodes: Nodes, status: int, body: str
) -> None:
    kind = "application/json" if body.startswith("{") else "text/html"
    nodes.say(lambda: web.Response(text=body, content_type=kind, status=status))
    async with nodes.connect() as connection:
        said = rf"at 127.0.0.1:\d+ gives no readable answer, but the status {status}"
        with pytest.raises(StoreUnavailableError, match=said):
            await connection.search("events", {})


CALLS: Final[Mapping[str, Callable[[Connection], Awaitable[object]]]] = {
    "a document": lambda connection: connection.get("keys", "1"),
    "documents": lambda connection: connection.get_many([Place("keys", "1")]),
    "ids": lambda connection: find_existing(connection, "tests", ["1"], "routing"),
    "a search": lambda connection: connection.search("events", {}),
    "searches": lambda connection: connection.search_many([Search("events", {})]),
    "a count": lambda connection: connection.count("events"),
    "a write": lambda connection: connection.put("keys", "1", {}),
    "writes": lambda connection: bulk.send(
        connection, [Operation("delete", "events", "1", None)], visible=False
    ),
    "a lease": lambda connection: LeaseDocument(connection, "control", "1").put({}, None),
    "the end of a lease": lambda connection: LeaseDocument(connection, "control", "1").delete(
        Version(1, 1)
    ),
    "a refresh": lambda connection: connection.refresh("events"),
    "the existence of an index": lambda connection: existing.exists(connection, "tests"),
    "the list of indices": lambda connection: existing.list_indices(connection, "events-*"),
    "the index behind an alias": lambda connection: existing.find_index(connection, "tests"),
    "the deletion of an index": lambda connection: existing.delete_index(connection, "tests"),
    "the templates": lambda connection: ensure_templates(connection, Layout("x")),
    "what templates give": lambda connection: resolve(connection, "tests"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("body", ["", "{}", "null", "[]", '{"message": "no Route matched"}'])
async def test_an_answer_of_another_service_is_not_that_of_a_node(
    nodes: Nodes, call: Callable[[Connection], Awaitable[object]], status: int, body: str
) -> None:
    """Above all, a document is not missing because a proxy does not know its path."""
    nodes.say(lambda: json_response(body.encode(), status))
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="gives no readable answer"):
            await call(connection)


async def test_a_document_is_missing_if_the_node_says_so(nodes: Nodes) -> None:
    missing = b'{"_index": "keys", "_id": "1", "found": false}'
    nodes.say(lambda: json_response(missing, 404))
    async with nodes.connect() as connection:
        assert await connection.get("keys", "1") is None


async def test_a_passing_failure_is_repeated(nodes: Nodes) -> None:
    nodes.say(
        lambda: failure_response(503, "no_master"),
        lambda: web.Response(body=b"<html>a proxy</html>", content_type="text/html", status=502),
        lambda: json_response(EMPTY),
    )
    async with nodes.connect() as connection:
        assert (await connection.search("events", {}))["hits"] == {"hits": []}
    assert len(nodes.asked) == 3


async def test_a_refresh_that_fails_on_a_shard_is_reported(nodes: Nodes) -> None:
    shards = (
        b'{"total": 2, "successful": 1, "failed": 1, "failures": [{"reason": {"type": "full"}}]}'
    )
    nodes.say(lambda: json_response(b'{"_shards": %s}' % shards))
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="full"):
            await connection.refresh("events")


GONE: Final = b'{"type": "index_not_found_exception", "reason": "no such index"}'
BROKEN: Final = b'{"type": "no_shard_available_action_exception", "reason": "no copy"}'


async def test_a_document_of_an_index_that_is_gone_is_not_just_missing(nodes: Nodes) -> None:
    nodes.say(lambda: json_response(b'{"error": %s, "status": 404}' % GONE, 404))
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="no such index"):
            await connection.get("keys", "1")


async def test_only_of_a_missing_index_documents_may_be_missing(nodes: Nodes) -> None:
    nodes.say(
        lambda: json_response(b'{"docs": [{"_id": "1", "error": %s}]}' % GONE),
        lambda: json_response(b'{"docs": [{"error": %s}]}' % GONE),
        lambda: json_response(b'{"docs": [{"_id": "1", "error": %s}]}' % BROKEN),
    )
    async with nodes.connect() as connection:
        assert await connection.get_many([Place("keys", "1")], may_be_gone=True) == [None]
        assert await find_existing(connection, "tests", ["1"], "routing") == {}
        with pytest.raises(StoreUnavailableError, match="no copy"):
            await connection.get_many([Place("keys", "1")], may_be_gone=True)
        with pytest.raises(StoreUnavailableError, match="no copy"):
            await find_existing(connection, "tests", ["1"], "routing")


@pytest.mark.parametrize("visible", [True, False])
async def test_a_write_whose_response_was_lost_is_as_visible_as_it_should_be(
    nodes: Nodes, visible: bool
) -> None:
    stored = b'{"found": true, "_id": "1", "_seq_no": 1, "_primary_term": 1, "_source": {"a": 1}}'
    nodes.say(
        lambda: failure_response(409, "version_conflict_engine_exception"),
        lambda: json_response(stored),
        lambda: json_response(b'{"_shards": {"failed": 0}}'),
    )
    async with nodes.connect() as connection:
        await connection.put("keys", "1", {"a": 1}, visible=visible)
    paths = [url.path for url, _ in nodes.asked]
    assert paths == ["/keys/_doc/1"] * 2 + ["/keys/_refresh"] * visible


async def test_a_search_that_a_node_ended_early_is_no_answer(nodes: Nodes) -> None:
    nodes.say(lambda: json_response(EMPTY.replace(b"false", b"true")))
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="a part of the answer only"):
            await connection.search("events", {})


REFUSED: Final = b'{"error": {"type": "es_rejected_execution_exception"}, "status": 429}'


async def test_one_of_several_searches_that_is_refused_for_a_moment_is_repeated(
    nodes: Nodes,
) -> None:
    bodies: list[bytes] = []
    answers = [b"%s, %s" % (EMPTY.replace(b"[]", b"[1]"), REFUSED), REFUSED, EMPTY]

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return json_response(b'{"responses": [%s]}' % answers.pop(0))

    nodes.handler = answer
    async with nodes.connect() as connection:
        found = await connection.search_many([Search("events", {}), Search("runs", {})])
    assert [each["hits"]["hits"] for each in found] == [[1], []]
    assert [(b"events" in body, b"runs" in body) for body in bodies] == [
        (True, True),
        (False, True),
        (False, True),
    ]


async def test_several_searches_that_stay_refused_are_unavailable_in_time(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "READING", Timeouts(total=2.0, attempt=2.0))
    nodes.say(lambda: json_response(b'{"responses": [%s]}' % REFUSED))
    async with nodes.connect() as connection:
        with pytest.raises(StoreUnavailableError, match="answers 429"):
            await connection.search_many([Search("events", {})])


async def test_a_permanent_failure_is_raised_with_its_reason_and_not_retried(nodes: Nodes) -> None:
    nodes.say(lambda: failure_response(400, "parsing_exception"))
    async with nodes.connect() as connection:
        with pytest.raises(StoreError, match="answers 400 \\(parsing_exception: why\\)"):
            await connection.search("events", {})
    assert len(nodes.asked) == 1


async def test_a_status_that_the_caller_allows_is_nofailure_response(nodes: Nodes) -> None:
    nodes.say(lambda: failure_response(409, "version_conflict"))
    async with nodes.connect() as connection:
        answer = await connection.request("DELETE", "/events/_doc/1", allow={409})
        assert answer["error"]["type"] == "version_conflict"
        with pytest.raises(ConflictError):
            await connection.request("DELETE", "/events/_doc/1")


async def test_the_format_of_one_version_is_requested(nodes: Nodes) -> None:
    nodes.say(lambda: json_response(b"{}"))
    async with nodes.connect() as connection:
        await connection.request("GET", "/")
        await connection.request("PUT", "/events", {"settings": {}})
        await connection.request("POST", "/_bulk", b"{}\n")
    asked, sent, sent_lines = (request for _, request in nodes.asked)
    vendor, version = "application/vnd.elasticsearch+", "compatible-with=9"
    assert "Content-Type" not in asked.headers
    for request, header, kind in (
        (asked, "Accept", "json"),
        (sent, "Accept", "json"),
        (sent, "Content-Type", "json"),
        (sent_lines, "Accept", "json"),
        (sent_lines, "Content-Type", "x-ndjson"),
    ):
        media, _, parameter = request.headers[header].partition(";")
        assert (media, parameter.strip()) == (vendor + kind, version)


async def test_each_node_gets_the_credentials_of_its_own_url(nodes: Nodes) -> None:
    nodes.say(lambda: json_response(b"{}"))
    users = {"Basic " + base64.b64encode(f"{name}:{PASSWORD}".encode()).decode() for name in "ab"}
    async with nodes.connect("a", "b", None) as connection:
        for _ in range(6):
            await connection.request("GET", "/")
    sent = {(url.port, request.headers.get("Authorization")) for url, request in nodes.asked}
    assert len(sent) == 3
    assert {header for _, header in sent} == users | {None}


async def test_an_api_key_goes_to_every_node_and_into_no_message(nodes: Nodes) -> None:
    nodes.say(lambda: failure_response(401, "security_exception"))
    async with nodes.connect("a", None, api_key="c2VjcmV0") as connection:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError) as raised:
                await connection.request("GET", "/")
            assert "c2VjcmV0" not in str(raised.value)
            assert PASSWORD not in str(raised.value)
    assert {request.headers["Authorization"] for _, request in nodes.asked} == {"ApiKey c2VjcmV0"}


@pytest.mark.parametrize(
    ("scheme", "why"), [("http", "ConnectionError: .+"), ("https", r"TlsError: \[SSL.+")]
)
async def test_the_error_says_why_a_node_cannot_be_reached_without_its_password(
    scheme: str, why: str
) -> None:
    """Over http nobody listens, over https the node does not speak TLS."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    if scheme == "http":
        server.close()
    connection = Connection([f"{scheme}://user:{PASSWORD}@127.0.0.1:{port}"])
    try:
        with pytest.raises(StoreUnavailableError) as raised:
            await connection.request("GET", "/")
    finally:
        await connection.close()
        server.close()
    named = f"Elasticsearch at 127.0.0.1:{port} cannot be reached"
    assert re.fullmatch(rf"{named} \({why}\)", str(raised.value))
    assert PASSWORD not in str(raised.value)


async def test_a_search_with_the_whole_time_of_a_read_is_not_moved_to_another_node(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "READING_AMONG_SEVERAL", Timeouts(total=0.2, attempt=0.1))
    monkeypatch.setattr(client, "READING", Timeouts(total=60.0, attempt=60.0))
    begun, answered = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        begun.set()
        await answered.wait()
        return json_response(b'{"responses": [%s]}' % EMPTY)

    nodes.handler = answer
    async with nodes.connect(None, None) as connection:
        search = Search("index", {})
        whole = asyncio.create_task(connection.search_many([search], timeouts=client.READING))
        await begun.wait()
        with pytest.raises(StoreUnavailableError):
            await connection.search_many([search])
        answered.set()
        assert len(await whole) == 1
    # The other one was tried on both nodes.
    assert len(nodes.asked) == 3
    assert len({url.port for url, _ in nodes.asked}) == 2
