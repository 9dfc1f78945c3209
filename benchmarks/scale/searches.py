"""The costs of searches in a loaded store; each is measured in turn with its peer.

A first search uses a new word, so no cache of the node contains it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks.scale.identities import SMALL, name_of, rare_word, sizes_of
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.client.bulk import Operation, send
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.search.query import ORDERS
from indexing.store.elasticsearch.search.shortcuts import Shortcut, make_shortcut_query
from indexing.store.interface import Reader

# The same documents with a plain key, the layout without a design for scale.
_PLAIN_MAPPING: Final = {
    "dynamic": False,
    "properties": {
        "repository_id": {"type": "keyword"},
        "test_name": {"type": "keyword"},
        "executions_count": {"type": "long"},
    },
}
_PLAIN_SETTINGS: Final = {"number_of_shards": 2, "number_of_replicas": 0}
_DOCUMENTS_A_CALL: Final = 5_000


@dataclass(frozen=True, slots=True)
class Compared:
    """The times of two ways, in seconds: the median of each."""

    one: float
    other: float

    @property
    def ratio(self) -> float:
        return self.one / self.other


async def build_plain_index(connection: Connection, index: str, identities: int) -> None:
    """Store all identities in an index without a repository key, unless it exists already."""
    made = await connection.request(
        "PUT",
        f"/{index}",
        {"settings": _PLAIN_SETTINGS, "mappings": _PLAIN_MAPPING},
        allow={400},
        timeouts=WRITING,
    )
    if "error" in made:
        return
    for repository, tests in sizes_of(identities).items():
        routing = routing_of(repository)
        for start in range(0, tests, _DOCUMENTS_A_CALL):
            operations = [
                Operation(
                    "create",
                    index,
                    f"{routing}-{number}",
                    routing,
                    {
                        "repository_id": routing,
                        "test_name": name_of(repository, number),
                        "executions_count": 1,
                    },
                )
                for number in range(start, min(start + _DOCUMENTS_A_CALL, tests))
            ]
            await send(connection, operations, visible=False)
    await connection.refresh(index)


async def compare_first_searches(
    reader: Reader, connection: Connection, plain: str, words: Sequence[int]
) -> Compared:
    """Compare the search for `*word*` in the small repository with one over the plain index."""
    own, other = [], []
    for number in words:
        query = _query_of(number)
        own.append(await _time(partial(reader.search_tests, query, Anchor(), 10)))
        search = partial(connection.search, plain, _plain_body(query), timeouts=WRITING)
        other.append(await _time(partial(search, routing=routing_of(SMALL))))
    return Compared(statistics.median(own), statistics.median(other))


async def compare_work_of_first_searches(
    connection: Connection, identities: str, plain: str, words: Sequence[int]
) -> Compared:
    """Compare the node's own work on both searches, without the round trip."""
    routing = routing_of(SMALL)
    own, other = [], []
    for number in words:
        query = _query_of(number)
        body = {
            "size": 11 + Shortcut.TRIGRAMS.value,
            "query": make_shortcut_query(Shortcut.TRIGRAMS, query, routing),
            "sort": [{field: "desc"} for field in ORDERS[query.sort]],
            "track_total_hits": False,
        }
        own.append(await _work(connection, identities, body, routing))
        other.append(await _work(connection, plain, _plain_body(query), routing))
    return Compared(statistics.median(own), statistics.median(other))


def _query_of(number: int) -> TestQuery:
    return TestQuery(SMALL, (f"*{rare_word(SMALL, number)}*",))


def _plain_body(query: TestQuery) -> dict[str, Any]:
    (pattern,) = query.patterns
    return {
        "size": 11,
        "query": {
            "bool": {
                "filter": [
                    {"term": {"repository_id": routing_of(query.repository)}},
                    {"wildcard": {"test_name": {"value": pattern}}},
                ]
            }
        },
        "sort": [{"executions_count": "desc"}, {"test_name": "desc"}],
        "track_total_hits": False,
    }


async def _work(connection: Connection, index: str, body: dict[str, Any], routing: str) -> float:
    """Return the seconds that the shard worked on the query."""
    answer = await connection.search(
        index, body | {"profile": True}, routing=routing, timeouts=WRITING
    )
    nanoseconds = 0
    for shard in answer["profile"]["shards"]:
        for search in shard["searches"]:
            nanoseconds += search["rewrite_time"]
            nanoseconds += sum(query["time_in_nanos"] for query in search["query"])
            nanoseconds += sum(each["time_in_nanos"] for each in search["collector"])
    return nanoseconds / 1e9


async def _time(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
