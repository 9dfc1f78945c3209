"""A store with the production cache in front of it, whose answers must agree with the store's.

Writes invalidate the cache. Each read of what is cached asks the cache twice and the store once,
and asserts that the three answers agree. So a contract that holds here holds of the store alone
too. The cache holds response bodies; this module parses them back into models. The few columns that
a body lacks are those of the store's answer.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

import orjson

from indexing.models.executions import PullRequest
from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import Quarantine, QuarantineKey, QuarantineQuery, QuarantineSource
from indexing.models.repositories import Repository
from indexing.models.tests import (
    HealthStatus,
    IdentityKey,
    TestDetail,
    TestHealth,
    TestIdentity,
    TestMetadata,
    TestQuery,
)
from indexing.names import RepositoryName, parse_repository
from indexing.store.interface import Store
from indexing.timestamps import parse_timestamp
from service.cache.answers import Answer
from service.cache.backend import CacheBackend
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import open_backend
from service.cache.reader import CachedReaders
from service.config.settings import Settings
from service.http.operations import Operation
from service.pagination.sort_keys import IdentityPlace

T = TypeVar("T")


class CachedStore(InvalidatingStore):
    """Returns the answers of the store, after asserting that the cache returns the same."""

    def __init__(self, store: Store, backend: CacheBackend) -> None:
        super().__init__(store, backend)
        self._backend = backend
        self._readers = CachedReaders(store, backend)

    async def close(self) -> None:
        await self._backend.close()
        await self._store.close()

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        async def ask() -> ApplicationKey | None:
            return await (await self._readers.open(Operation.TEST, digest, None)).find_key(digest)

        kept = await _ask_twice(ask)
        assert kept == await self._store.find_key(digest)
        return kept

    async def get_key(self, key_id: str) -> ApplicationKey | None:
        async def ask() -> ApplicationKey | None:
            return await (await self._readers.open(Operation.TEST, None, None)).get_key(key_id)

        kept = await _ask_twice(ask)
        assert kept == await self._store.get_key(key_id)
        return kept

    async def find_repository(self, name: RepositoryName) -> Repository | None:
        async def ask() -> RepositoryName | None:
            reader = await self._readers.open(Operation.SEARCH, None, name)
            return await reader.find_repository(name)

        kept = await _ask_twice(ask)
        stored = await self._store.find_repository(name)
        assert kept == (stored and stored.name)
        return stored

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> TestDetail | None:
        async def ask() -> Answer | None:
            reader = await self._readers.open(Operation.TEST, None, repository, str(test_id))
            return await reader.get_test(repository, test_id)

        kept = await _ask_twice(ask)
        stored = await self._store.get_test(repository, test_id)
        assert stored == (None if kept is None else _detail_of(orjson.loads(kept.body)))
        return stored

    async def search_tests(
        self, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
    ) -> Page[TestIdentity]:
        place: Anchor[IdentityPlace] = Anchor(anchor.key, anchor.backward)

        async def ask() -> Answer:
            reader = await self._readers.open(Operation.SEARCH, None, query.repository)
            return await reader.search_tests(query, place, limit)

        kept = await _ask_twice(ask)
        # Response bodies do not contain the counts.
        stored = await self._store.search_tests(query, anchor, limit)
        shown = [_names_of(row) for row in _rows(kept, "tests")]
        assert shown == [
            (str(row.test_id), row.key.test_name, row.key.pipeline_name, row.key.job_name)
            for row in stored.rows
        ]
        assert (kept.ends.has_previous, kept.ends.has_next) == (
            stored.has_previous,
            stored.has_next,
        )
        return stored

    async def list_quarantines(
        self, query: QuarantineQuery, anchor: Anchor[QuarantineKey], limit: int | None
    ) -> Page[Quarantine]:
        async def ask() -> Answer:
            reader = await self._readers.open(Operation.QUARANTINES, None, query.repository)
            return await reader.list_quarantines(query, anchor, limit)

        kept = await _ask_twice(ask)
        stored = await self._store.list_quarantines(query, anchor, limit)
        shown = zip(_rows(kept, "quarantined_tests"), stored.rows, strict=True)
        rows = tuple(_quarantine_of(row, quarantine) for row, quarantine in shown)
        assert stored == Page(rows, kept.ends.has_previous, kept.ends.has_next)
        return stored

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Quarantine | None:
        async def ask() -> Answer | None:
            item = str(quarantine_id)
            reader = await self._readers.open(Operation.QUARANTINE, None, repository, item)
            return await reader.get_quarantine(repository, quarantine_id, now)

        kept = await _ask_twice(ask)
        stored = await self._store.get_quarantine(repository, quarantine_id, now)
        if stored is None:
            assert kept is None
            return None
        assert kept is not None
        assert stored == _quarantine_of(orjson.loads(kept.body), stored)
        return stored


@asynccontextmanager
async def cached(store: Store, redis_url: str | None = None) -> AsyncIterator[CachedStore]:
    """Return the store behind a cache, which is in process or in the given Redis."""
    settings = Settings(redis_url=redis_url)
    opened = CachedStore(store, await open_backend(settings, store, await store.get_identity()))
    try:
        yield opened
    finally:
        await opened.close()


async def _ask_twice(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the cache, and again when it holds the answer; assert that both answers are equal."""
    first, again = await ask(), await ask()
    assert first == again
    return again


def _rows(answer: Answer, member: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = orjson.loads(answer.body)[member]
    return rows


def _quarantine_of(row: dict[str, Any], stored: Quarantine) -> Quarantine:
    """Parse the quarantine in a body, which lacks the owner and the expiry."""
    return Quarantine(
        key=QuarantineKey(parse_timestamp(row["created_at"]), uuid.UUID(row["id"])),
        test_name=row["test_name"],
        reason=row["reason"],
        branch=row["branch"],
        source=QuarantineSource(row["source"]),
        is_recovered=row["is_recovered"],
        owner=stored.owner,
        expires_at=stored.expires_at,
    )


def _names_of(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["test_id"], row["test_name"], row["pipeline_name"], row["job_name"]


def _detail_of(body: dict[str, Any]) -> TestDetail:
    pull = body["first_failure_pull"]
    return TestDetail(
        repository=parse_repository(body["repository"]),
        test_name=body["test_name"],
        test_id=uuid.UUID(body["test_id"]),
        flaky_detection_enabled=body["flaky_detection_enabled"],
        health=TestHealth(
            health_status=HealthStatus(body["health_status"]),
            last_conclusion=body["last_conclusion"],
            failure_ratio=body["failure_ratio"],
            flakiness_ratio=body["flakiness_ratio"],
            success_ratio=body["success_ratio"],
            first_failure_at=_moment(body["first_failure_at"]),
            first_failure_commit=body["first_failure_commit"],
            first_failure_pull=None
            if pull is None
            else PullRequest(
                pull["id"], pull["number"], pull["title"], pull["user"]["id"], pull["user"]["login"]
            ),
            last_failure_at=_moment(body["last_failure_at"]),
            last_success_at=_moment(body["last_success_at"]),
        ),
        metadata=TestMetadata(
            framework=body["test_framework"],
            framework_version=body["test_framework_version"],
            language=body["test_programming_language"],
            filepath=body["test_filepath"],
            function_name=body["test_function_name"],
        ),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_timestamp(text)
