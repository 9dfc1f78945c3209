"""The peer's reads of the service's own indices, by the official client in its plain form."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from elasticsearch import AsyncElasticsearch, NotFoundError

from benchmarks.peers.interface import EventPage, EventPlace, PeerStore, Search
from benchmarks.peers.models import Quarantine, TestDetail, TestIdentity
from benchmarks.peers.sqlite import microseconds_of, moment_of
from indexing.names import parse_repository
from indexing.store.elasticsearch.cluster import routing_of

_SEARCH_ORDER = ("executions_count", "test_name", "pipeline_name", "job_name")


class ElasticsearchStore(PeerStore):
    """One client for the process."""

    def __init__(self, url: str, prefix: str) -> None:
        self._client = AsyncElasticsearch(url)
        self._prefix = prefix

    async def is_allowed(self, digest: bytes, repository: str) -> bool:
        routing = _routing_of(repository)
        try:
            found = await asyncio.gather(
                self._client.get(index=f"{self._prefix}-control", id=f"key:{digest.hex()}"),
                self._client.get(index=f"{self._prefix}-control", id=f"repository:{routing}"),
            )
        except NotFoundError:
            return False
        source = found[0]["_source"]
        if source["revoked_at"] is not None:
            return False
        expires_at = source["expires_at"]
        if expires_at is not None and moment_of(expires_at) <= datetime.now(UTC):
            return False
        owner, _, name = repository.partition("/")
        return source["owner"].lower() == owner and source["repository"] in (None, name)

    async def find_test(self, repository: str, test_id: UUID) -> TestDetail | None:
        routing = _routing_of(repository)
        try:
            known, found = await asyncio.gather(
                self._client.get(index=f"{self._prefix}-control", id=f"repository:{routing}"),
                self._client.get(index=f"{self._prefix}-tests", id=str(test_id), routing=routing),
            )
        except NotFoundError:
            return None
        return _detail_of(known["_source"], found["_source"], test_id)

    async def list_quarantines(self, repository: str, branch: str | None) -> list[Quarantine]:  # noqa: ARG002 - all of them apply to every branch
        routing = _routing_of(repository)
        expired = {"range": {"expires_at": {"lte": microseconds_of(datetime.now(UTC))}}}
        answer = await self._client.search(
            index=f"{self._prefix}-quarantines",
            routing=routing,
            query={
                "bool": {
                    "filter": [
                        {"term": {"repository_id": routing}},
                        {"exists": {"field": "quarantine_id"}},
                    ],
                    "must_not": [expired],
                }
            },
            sort=[{"created_at": "asc"}, {"quarantine_id": "asc"}],
            size=1_000,
        )
        return [_quarantine_of(hit["_source"]) for hit in answer["hits"]["hits"]]

    async def list_events(
        self,
        repository: str,
        received_from: datetime,
        received_to: datetime,
        after: EventPlace | None,
        limit: int,
    ) -> EventPage:
        routing = _routing_of(repository)
        window = {"gte": microseconds_of(received_from), "lt": microseconds_of(received_to)}
        answer = await self._client.search(
            index=f"{self._prefix}-events",
            routing=routing,
            query={
                "bool": {
                    "filter": [
                        {"term": {"repository_id": routing}},
                        {"range": {"received_at": window}},
                    ]
                }
            },
            sort=[{"received_at": "desc"}, {"id": "desc"}],
            search_after=None if after is None else [after.received_at, after.id],
            size=limit + 1,
            source_includes=["body"],
            track_total_hits=False,
        )
        hits = answer["hits"]["hits"]
        page = hits[:limit]
        last = EventPlace(*page[-1]["sort"]) if len(hits) > limit else None
        return EventPage([orjson.loads(hit["_source"]["body"]) for hit in page], last)

    async def search_tests(self, search: Search) -> list[TestIdentity]:
        routing = _routing_of(search.repository)
        names = [
            {"wildcard": {"key": {"value": f"{routing}\0{pattern}"}}} for pattern in search.patterns
        ]
        answer = await self._client.search(
            index=f"{self._prefix}-identities",
            routing=routing,
            query={
                "bool": {
                    "filter": [{"bool": {"should": names}}],
                    "must_not": [{"terms": {"job_name": search.jobs_excluded}}],
                }
            },
            sort=[{field: "desc"} for field in _SEARCH_ORDER],
            size=search.limit,
            track_total_hits=False,
        )
        return [_identity_of(hit["_source"]) for hit in answer["hits"]["hits"]]


def _routing_of(repository: str) -> str:
    return routing_of(parse_repository(repository))


def _moment_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment_of(microseconds)


def _detail_of(known: Any, found: Any, test_id: UUID) -> TestDetail:
    metadata = found["metadata"]
    return TestDetail(
        repository=f"{known['owner']}/{known['name']}",
        test_name=found["test_name"],
        test_id=test_id,
        health_status=found["health_status"],
        last_conclusion=found["last_conclusion"],
        failure_ratio=found["failure_ratio"],
        flakiness_ratio=found["flakiness_ratio"],
        success_ratio=found["success_ratio"],
        flaky_detection_enabled=known["flaky_detection"],
        first_failure_at=_moment_or_none(found["first_failure_at"]),
        first_failure_commit=found["first_failure_commit"],
        first_failure_pull=found["first_failure_pull"],
        last_failure_at=_moment_or_none(found["last_failure_at"]),
        last_success_at=_moment_or_none(found["last_success_at"]),
        test_framework=metadata["framework"],
        test_framework_version=metadata["framework_version"],
        test_programming_language=metadata["language"],
        test_filepath=metadata["filepath"],
        test_function_name=metadata["function_name"],
    )


def _identity_of(source: Any) -> TestIdentity:
    return TestIdentity(
        test_id=source["test_id"],
        test_name=source["test_name"],
        pipeline_name=source["pipeline_name"],
        job_name=source["job_name"],
    )


def _quarantine_of(source: Any) -> Quarantine:
    return Quarantine(
        id=source["quarantine_id"],
        test_name=source["test_name"],
        reason=source["reason"],
        branch=source["branch"],
        created_at=moment_of(source["created_at"]),
        source=source["source"],
        is_recovered=source["is_recovered"],
    )
