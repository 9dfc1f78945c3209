"""Small reads that begin together are one request; each caller gets its own answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client.combined_reads import CombinedReads
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.failures import TooComplexError
from indexing.store.elasticsearch.client.places import Place, Search
from tests.indexing.store.elasticsearch.client.nodes import Nodes, json_response

REFUSED = {"error": {"type": "es_rejected_execution_exception", "reason": "full"}, "status": 429}
TOO_COMPLEX = {"error": {"type": "too_complex_to_determinize_exception"}, "status": 400}
INVALID = {"error": {"type": "parsing_exception", "reason": "why"}, "status": 400}


class SearchedNode:
    """Answers each search with its own body; `refusals` are given once, by the name of a search."""

    def __init__(self, nodes: Nodes) -> None:
        self.refusals: dict[str, Any] = {}
        # The names of the searches of each request.
        self.requests: list[list[str]] = []
        nodes.handler = self._answer

    async def _answer(self, request: web.Request) -> web.Response:
        lines = [orjson.loads(line) for line in (await request.read()).splitlines()]
        if request.path == "/_mget":
            (read,) = lines
            self.requests.append([doc["_id"] for doc in read["docs"]])
            docs = [self._document(doc["_id"]) for doc in read["docs"]]
            return json_response(orjson.dumps({"docs": docs}))
        several = request.path == "/_msearch"
        names = [line["name"] for line in (lines[1::2] if several else lines)]
        self.requests.append(names)
        answers = [self.refusals.pop(name, None) or _found(name) for name in names]
        return json_response(orjson.dumps({"responses": answers} if several else answers[0]))

    def _document(self, name: str) -> dict[str, Any]:
        if name in self.refusals:
            return {"_id": name, **self.refusals[name]}
        version = {"_seq_no": 1, "_primary_term": 1}
        return {"_id": name, "_source": {"name": name}, **version} if name else {"_id": name}


def _found(name: str) -> dict[str, Any]:
    return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": [name]}}


def _search(*names: str) -> list[Search]:
    return [Search("events", {"name": name}, "r") for name in names]


def _names(answers: Any) -> list[str]:
    return [name for answer in answers for name in answer["hits"]["hits"]]


@pytest.fixture
def node(aiohttp_server: AiohttpServer) -> tuple[Nodes, SearchedNode]:
    nodes = Nodes(aiohttp_server)
    return nodes, SearchedNode(nodes)


@pytest.fixture
async def connection(node: tuple[Nodes, SearchedNode]) -> AsyncIterator[Connection]:
    async with node[0].connect() as connection:
        yield connection


@pytest.fixture
def searched(node: tuple[Nodes, SearchedNode]) -> SearchedNode:
    return node[1]


@pytest.fixture
def reads(connection: Connection) -> CombinedReads:
    return CombinedReads(connection)


async def test_searches_that_begin_together_are_one_request(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    found = await asyncio.gather(
        reads.search(1, _search("a")),
        reads.search(1, _search("b", "c")),
        reads.search(2, _search("d")),
    )
    assert [_names(answers) for answers in found] == [["a"], ["b", "c"], ["d"]]
    assert sorted(searched.requests) == [["a", "b", "c"], ["d"]]


async def test_searches_of_different_tenants_share_no_request(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    async def search(tenant: str) -> list[str]:
        current_tenant.set(tenant)
        return _names(await reads.search(1, _search(tenant)))

    assert await asyncio.gather(*map(search, "aba")) == [["a"], ["b"], ["a"]]
    assert sorted(searched.requests) == [["a", "a"], ["b"]]


async def test_a_request_has_few_searches(reads: CombinedReads, searched: SearchedNode) -> None:
    await asyncio.gather(*(reads.search(1, _search(f"{n}")) for n in range(30)))
    assert max(map(len, searched.requests)) == 8


async def test_a_search_that_is_refused_for_a_moment_is_repeated_alone(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    searched.refusals = {"b": REFUSED}
    found = await asyncio.gather(*(reads.search(1, _search(name)) for name in "abc"))
    assert [_names(answers) for answers in found] == [["a"], ["b"], ["c"]]
    assert searched.requests == [["a", "b", "c"], ["b"]]


@pytest.mark.parametrize(
    ("refusal", "error"), [(TOO_COMPLEX, TooComplexError), (INVALID, StoreError)]
)
async def test_the_error_of_one_search_leaves_the_others(
    reads: CombinedReads, searched: SearchedNode, refusal: Any, error: type[Exception]
) -> None:
    searched.refusals = {"b": refusal}
    one, refused, other = await asyncio.gather(
        *(reads.search(1, _search(name)) for name in "abc"), return_exceptions=True
    )
    assert [_names(one), _names(other)] == [["a"], ["c"]]
    assert type(refused) is error
    assert searched.requests == [["a", "b", "c"]]


async def test_documents_that_several_callers_read_are_sent_once(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    calls = [[Place("tests", "repository"), Place("tests", name)] for name in "ab"]
    found = await asyncio.gather(*map(reads.get_many, calls))
    assert [[each and each.id for each in documents] for documents in found] == [
        ["repository", "a"],
        ["repository", "b"],
    ]
    assert searched.requests == [["repository", "a", "b"]]


async def test_documents_without_other_fields_are_another_request(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    await asyncio.gather(
        reads.get_many([Place("tests", "a")]), reads.get_many([Place("tests", "b")], without=["x"])
    )
    assert sorted(searched.requests) == [["a"], ["b"]]


async def test_a_document_that_cannot_be_read_leaves_the_others(
    reads: CombinedReads, searched: SearchedNode
) -> None:
    searched.refusals = {"b": {"error": {"type": "no_shard_available", "reason": "moved"}}}
    one, failed, missing = await asyncio.gather(
        *(reads.get_many([Place("tests", name)]) for name in ("a", "b", "")), return_exceptions=True
    )
    assert isinstance(failed, StoreUnavailableError)
    assert not isinstance(one, BaseException)
    assert one[0] is not None
    assert missing == [None]
