"""Reads the executions of tests, as observations for the health rules.

They are read only for tests whose new executions cannot be merged into roll-ups: all executions, or
those of a time range.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from indexing.health.observations import Observation
from indexing.models.executions import Conclusion
from indexing.models.tests import METADATA_FIELDS, TestMetadata
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.scanning import scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.marked_executions import short_id
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT, clauses_since
from indexing.store.elasticsearch.derived.runs import find_failed
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.pull_requests import pull_of

_BUCKETS_A_PAGE: Final = 2_000
# The most that a search may return.
_ROWS_A_PAGE: Final = 10_000
# A reader of verdicts forgets each page before it reads the next one.
_VERDICTS_A_PAGE: Final = 2_000
# How many executions one step holds in memory at once: one page, even if a few more arrive after
# they were counted.
_EXECUTIONS_AT_ONCE: Final = 9_500
# Makes a named tuple in half the time of a call of its class.
_new: Final = tuple.__new__
_CONCLUSIONS: Final = {conclusion.value: conclusion for conclusion in Conclusion}

# Without the id of an execution, which is that of its document.
_FIELDS_OF_VERDICTS: Final = (
    "test_id",
    "pipeline_name",
    "job_name",
    "branch",
    "run",
    "commit",
    "conclusion",
    FINISHED_AT,
    "needed_retries",
)
_FIELDS: Final = (*_FIELDS_OF_VERDICTS, "pull", "duration", *METADATA_FIELDS)
_BY_TIME: Final = ({FINISHED_AT: "asc"}, {"execution_id": "asc"})


class OnBranch(NamedTuple):
    """An observation with its shortened id, the id of its test and the branch that it ran on."""

    id: str
    test_id: str
    branch: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class ObservedBranch:
    """Selects the executions of one repository that retention has not dropped.

    If `branch` is None, they are those of all branches.
    """

    routing: str
    retention: Retention
    branch: str | None

    def query(self, clause: Mapping[str, Any]) -> dict[str, Any]:
        filters = [{"term": {"repository_id": self.routing}}, clause]
        if self.branch is not None:
            filters.append({"term": {"branch": self.branch}})
        return {"bool": {"filter": filters, "must_not": self.retention.hidden(FINISHED_AT)}}


async def count_executions(
    cluster: Cluster, observed: ObservedBranch, tests: Collection[str]
) -> dict[str, int]:
    """Return the number of executions by test; tests without any are left out."""
    counts: dict[str, int] = {}
    async for buckets in scan_groups(
        cluster.connection,
        cluster.layout.executions,
        observed.query({"terms": {"test_id": list(tests)}}),
        ("test_id",),
        size=_BUCKETS_A_PAGE,
        routing=observed.routing,
    ):
        for bucket in buckets:
            counts[bucket["key"]["test_id"]] = bucket["doc_count"]
    return counts


def split_into_portions(tests: Sequence[str], counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Split the tests so that the executions of each portion fit into memory.

    A single test with more executions is a portion of its own.
    """
    portion: list[str] = []
    size = 0
    for test in tests:
        executions = counts.get(test, 0)
        if portion and size + executions > _EXECUTIONS_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(test)
        size += executions
    if portion:
        yield portion


@dataclass(frozen=True, slots=True)
class ReadExecutions:
    """The hits of the executions of some tests, and which of their runs failed as a whole."""

    hits: Sequence[Hit]
    failed: Collection[str]

    def by_test(self, tests: Iterable[str]) -> dict[str, list[OnBranch]]:
        """Convert them; thousands of them take long enough to block the event loop."""
        found: dict[str, list[OnBranch]] = {test: [] for test in tests}
        for seen in _observe(self.hits, self.failed):
            found[seen.test_id].append(seen)
        return found


async def read_counted(
    cluster: Cluster, observed: ObservedBranch, counts: Mapping[str, int]
) -> ReadExecutions:
    """Return the executions of each test, in any order; `counts` has about how many there are."""
    return await _read(cluster, observed, counts, is_short=sum(counts.values()) < _ROWS_A_PAGE)


async def read_all(
    cluster: Cluster, observed: ObservedBranch, tests: Collection[str]
) -> dict[str, list[OnBranch]]:
    """Return the executions of each test."""
    read = await _read(cluster, observed, tests)
    return await asyncio.to_thread(read.by_test, tests)


async def scan_verdicts(
    cluster: Cluster,
    observed: ObservedBranch,
    moments: Mapping[str, int],
    take_turn: Callable[[], AbstractAsyncContextManager[None]],
) -> AsyncGenerator[ReadExecutions, None]:
    """Yield the executions of each test since its moment, in microseconds, page by page.

    They have only the fields that verdicts need. Each page but the first is read within a turn.
    """
    body = {
        "size": _VERDICTS_A_PAGE,
        "query": observed.query({"bool": {"should": clauses_since(moments)}}),
        "sort": _BY_TIME,
        "_source": list(_FIELDS_OF_VERDICTS),
    }
    scanning = scan(
        cluster.connection,
        cluster.layout.executions,
        body,
        routing=observed.routing,
        take_turn=take_turn,
    )
    async with aclosing(scanning) as pages:
        async for hits in pages:
            runs = {hit["_source"]["run"] for hit in hits}
            yield ReadExecutions(hits, await find_failed(cluster, observed.routing, runs))


async def _read(
    cluster: Cluster, observed: ObservedBranch, tests: Collection[str], *, is_short: bool = False
) -> ReadExecutions:
    """Return all executions of these tests.

    With `is_short`, they are likely to fit into one page, which is then read without sorting.
    """
    if not tests:
        return ReadExecutions((), ())
    found: list[Hit] = []
    body = {
        "size": _ROWS_A_PAGE,
        "query": observed.query({"terms": {"test_id": list(tests)}}),
        "_source": list(_FIELDS),
    }
    async for hits in _list_pages(cluster, observed.routing, body, is_short=is_short):
        found += hits
    runs = {hit["_source"]["run"] for hit in found}
    return ReadExecutions(found, await find_failed(cluster, observed.routing, runs))


async def _list_pages(
    cluster: Cluster, routing: str, body: Mapping[str, Any], *, is_short: bool
) -> AsyncIterator[Sequence[Hit]]:
    """Yield the executions in pages; with `is_short`, try a page in the order of the index first.

    A full page may not be all of them, and in that order there is no next page.
    """
    index = cluster.layout.executions
    if is_short:
        unsorted = {**body, "sort": ["_doc"], "track_total_hits": False}
        answer = await cluster.connection.search(index, unsorted, routing=routing, timeouts=WRITING)
        hits = answer["hits"]["hits"]
        if len(hits) < body["size"]:
            yield hits
            return
    in_order = {**body, "sort": _BY_TIME}
    async for hits in scan(cluster.connection, index, in_order, routing=routing):
        yield hits


def _observe(hits: Iterable[Hit], failed: Collection[str]) -> Iterator[OnBranch]:
    """Convert hits; equal metadata is shared, which saves time and memory."""
    known: dict[tuple[Any, ...], TestMetadata] = {}
    for hit in hits:
        source = hit["_source"]
        find = source.get
        fields = tuple(map(find, METADATA_FIELDS))
        metadata = known.get(fields)
        if metadata is None:
            metadata = known[fields] = TestMetadata(*fields)
        pull = find("pull")
        seen = _new(
            Observation,
            (
                source["pipeline_name"],
                source["job_name"],
                source["commit"],
                _CONCLUSIONS[source["conclusion"]],
                source[FINISHED_AT],
                source["needed_retries"],
                source["run"] in failed,
                None if pull is None else pull_of(pull),
                metadata,
                find("duration"),
            ),
        )
        yield _new(OnBranch, (short_id(hit["_id"]), source["test_id"], source["branch"], seen))
