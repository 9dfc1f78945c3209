"""The cached reader: reads the store once for each answer, shapes it by its schema, and caches it.

It has the methods of `Reader` for what is cached, and returns an `Answer` where `Reader` returns
rows. It decides what is cached under which key. Access is checked elsewhere.

To cache another operation, add a `Kind` and a method that passes a read to `_find` or `_find_page`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar, cast

import orjson

from indexing.models.events import EventKey, EventQuery
from indexing.models.file_selections import FileSelection
from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineKey, QuarantineQuery
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.models.trends import DayQuery, HealthCounts
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.cache.answers import (
    ANSWER_CODEC,
    Answer,
    canonical_page,
    filters_of,
    key_of_answer,
    key_of_item,
    list_lookups,
    make_answer,
)
from service.cache.backend import CacheBackend, Snapshot, Versions
from service.cache.codecs import (
    FILEPATHS_CODEC,
    FILES_CODEC,
    FOUND_KEY_CODEC,
    HEALTH_COUNTS_CODEC,
    KEY_SIZE,
    REPOSITORY_CODEC,
    Codec,
    pack_key,
    unpack_key,
)
from service.cache.expiry import Bounds, find_expiry_of_events, find_expiry_of_quarantines
from service.cache.keys import (
    CREDENTIALS,
    CacheKey,
    Kind,
    key_of_credential,
    key_of_key_id,
    key_of_owner,
    key_of_repository,
)
from service.cache.quarantine_details import add_details, encode_details
from service.cache.quarantine_lists import ROWS_AT_ONCE, encode_quarantines, encode_test_states
from service.cache.session import Cache, CacheReads, CacheSession
from service.http import problems
from service.http.operations import Operation
from service.pagination.sort_keys import (
    EVENT_KEYS,
    IDENTITY_KEYS,
    QUARANTINE_KEYS,
    IdentityPlace,
    IdentityReference,
    pack_ends,
    place_identity,
)
from service.schemas.compiled import compile_encoder
from service.schemas.limits import MAX_TOTAL
from service.schemas.responses import (
    QUARANTINE_DETAILS,
    EventPageAnswer,
    QuarantineAnswer,
    Rows,
    TestDetailAnswer,
)
from service.schemas.search_pages import ENCODERS as SEARCH_ENCODERS

V = TypeVar("V")

Read = Callable[[], Coroutine[Any, Any, Answer | None]]
Complete = Callable[[TestQuery], Coroutine[Any, Any, TestQuery]]

_encode_test: Final = compile_encoder(TestDetailAnswer)
_encode_quarantine: Final = compile_encoder(QuarantineAnswer, without=QUARANTINE_DETAILS)
_encode_events: Final = compile_encoder(EventPageAnswer)
# Pages of usual events are far smaller.
_LARGE_BYTES: Final = 1024 * 1024

# Without `now`: an answer contains the time from which and until which it is valid.
_test_filters: Final = filters_of(TestQuery, but={"now"})
_quarantine_filters: Final = filters_of(QuarantineQuery, but={"now"})
# Without the range, which depends on the time: the key contains the bounds in the request.
_event_filters: Final = filters_of(EventQuery, but={"received_from", "received_to"})


class CachedReaders:
    """Opens a cached reader for each request; all of them share the cache of the process."""

    def __init__(
        self, reader: Reader, backend: CacheBackend, reads: CacheReads | None = None
    ) -> None:
        """`reads` counts the values that requests read."""
        self._reader = reader
        self._cache = Cache(backend, reads)

    async def open(
        self,
        operation: Operation,
        digest: bytes | None,
        repository: RepositoryName | None,
        item: str | None = None,
    ) -> CachedReader:
        """Open the reader of a request, and look up in one call what its operation will read.

        `digest` is that of its application key, `item` the UUID in its path, if present.
        """
        if not self._cache.backend.is_shared:
            # Without a server, each is looked up when it is needed.
            session = CacheSession(self._cache)
            if digest is None:
                # A key is looked up at once.
                session.use((CREDENTIALS,))
            return CachedReader(self._reader, session)
        namespaces, keys = list_lookups(operation, digest, repository, item)
        return CachedReader(self._reader, await self._cache.open_session(namespaces, keys))

    def reopen(self, namespaces: tuple[str, ...], versions: Versions) -> CachedReader:
        """Open the reader of a request whose access was found earlier, under these versions."""
        found = dict(zip(namespaces, versions, strict=True))
        session = CacheSession(self._cache, Snapshot(found))
        session.use(namespaces)
        return CachedReader(self._reader, session)


class CachedReader:
    """Reads the cache, or else the store, for one request."""

    __slots__ = ("_reader", "_session")

    def __init__(self, reader: Reader, session: CacheSession) -> None:
        self._reader = reader
        self._session = session

    @property
    def found_all(self) -> bool:
        """Whether the cache had all that the request has read: it was asked before."""
        return self._session.found_all

    def find_dependencies(self) -> tuple[tuple[str, ...], Versions] | None:
        """Return the namespaces that a response depends on, from the credential to the body.

        Their versions are those from the start of the request; `None` if one is unknown.
        """
        namespaces = tuple(dict.fromkeys((CREDENTIALS, *self._session.used_namespaces)))
        versions = self._session.versions_of(namespaces)
        return None if versions is None else (namespaces, versions)

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        """Return the application key with that SHA-256, even a revoked or expired one."""
        key = key_of_credential(digest)
        copy = cast("ApplicationKey | None", self._session.find_copy(key))
        if copy is not None:
            return copy
        codec = Codec(pack_key, partial(unpack_key, digest), lambda _: KEY_SIZE)
        return await self._session.find(key, lambda: self._reader.find_key(digest), codec)

    async def get_key(self, key_id: str) -> ApplicationKey | None:
        """Return the application key with that id, even a revoked or expired one."""
        return await self._session.find(
            key_of_key_id(key_id), lambda: self._reader.get_key(key_id), FOUND_KEY_CODEC
        )

    async def find_repository(self, name: RepositoryName) -> RepositoryName | None:
        """Return the stored spelling of a known repository."""
        key = key_of_repository(name)
        copy = cast("RepositoryName | None", self._session.find_copy(key))
        if copy is not None:
            return copy

        async def read() -> RepositoryName | None:
            found = await self._reader.find_repository(name)
            return None if found is None else found.name

        return await self._session.find(key, read, REPOSITORY_CODEC)

    async def get_test(self, repository: RepositoryName, test_id: uuid.UUID) -> Answer | None:
        """Return the detail of one test of the repository."""

        async def read() -> Answer | None:
            found = await self._reader.get_test(repository, test_id)
            return None if found is None else make_answer(_encode_test(found))

        return await self._find(key_of_item(Kind.TEST, repository, test_id.bytes), read)

    async def search_tests(
        self,
        query: TestQuery,
        anchor: Anchor[IdentityPlace],
        limit: int,
        *,
        with_total: bool = False,
        complete: Complete | None = None,
    ) -> Answer:
        """Return one page of the test search; `complete` is called on the query before it is read.

        Raises:
            Problem: 409 if the row that the page starts beside no longer exists.
        """

        def place_of(row: TestIdentity) -> IdentityPlace:
            return place_identity(query.repository, row.key)

        async def read() -> Answer:
            completed = query if complete is None else await complete(query)
            key = await self._find_identity_key(query.repository, anchor.key)
            page = await self._reader.search_tests(completed, Anchor(key, anchor.backward), limit)
            rows = Rows(page.rows, len(page.rows), limit)
            if with_total:
                total = await self._reader.count_matches(completed, MAX_TOTAL + 1)
                rows = replace(rows, total=min(total, MAX_TOTAL), total_is_exact=total <= MAX_TOTAL)
            body = SEARCH_ENCODERS[query.with_metrics, with_total](rows)
            ends = pack_ends(page, IDENTITY_KEYS, place_of)
            if now is None:
                return make_answer(body, ends)
            until = await self._reader.find_next_expiry(query.repository, now)
            return make_answer(body, ends, now, until)

        filters = (*_test_filters(query), with_total)
        canonical = canonical_page(filters, anchor, limit, IDENTITY_KEYS.pack)
        now = query.now if query.with_metrics or query.quarantined is not None else None
        kind = Kind.SEARCH if now is None else Kind.SEARCH_OF_QUARANTINES
        return await self._find_page(kind, query.repository, canonical, read, now)

    async def list_events(
        self,
        query: EventQuery,
        bounds: Bounds,
        anchor: Anchor[EventKey],
        limit: int,
        now: datetime,
    ) -> Answer:
        """Return one page of a range of the event log; `bounds` are those of the request.

        Only the first page is cached: it is polled, the others are read once. If the request has no
        end, the range ends at `since` of the answer, up to `EVENTS_LIFETIME` before `now`.
        """

        async def read() -> Answer:
            page = await self._reader.list_events(query, anchor, limit)
            body = _encode_events(Rows([row.body for row in page.rows], len(page.rows), limit))
            ends = pack_ends(page, EVENT_KEYS)
            until = find_expiry_of_events(
                query, bounds, page, now, sees_all=self._session.sees_all_writes
            )
            if len(body) > _LARGE_BYTES:
                # The digest of megabytes takes ten milliseconds; a thread needs no lock for it.
                return await asyncio.to_thread(make_answer, body, ends, now, until)
            return make_answer(body, ends, now, until)

        if anchor.key is not None or anchor.backward:
            return await read()
        canonical = orjson.dumps([*_event_filters(query), bounds, limit])
        return await self._find_page(Kind.EVENTS, query.repository, canonical, read, now)

    async def list_quarantines(
        self,
        query: QuarantineQuery,
        anchor: Anchor[QuarantineKey],
        limit: int | None,
        kind: Kind = Kind.QUARANTINES,
    ) -> Answer:
        """Return one page of the quarantines in force at `query.now`, or all without a limit.

        `QUARANTINE_DETAILS` cost a read of each test: they need a limit, as `TEST_STATES` do.
        """

        async def read() -> Answer:
            page = await self._reader.list_quarantines(query, anchor, limit)
            ends = pack_ends(page, QUARANTINE_KEYS)
            until = await find_expiry_of_quarantines(self._reader, query, page)
            if kind is Kind.QUARANTINE_DETAILS:
                detailed = await add_details(self._reader, query.repository, page.rows)
                return make_answer(encode_details(detailed), ends, query.now, until)
            if kind is Kind.TEST_STATES:
                return make_answer(encode_test_states(page.rows, limit), ends, query.now, until)

            def make() -> Answer:
                return make_answer(encode_quarantines(page.rows), ends, query.now, until)

            return await asyncio.to_thread(make) if len(page.rows) > ROWS_AT_ONCE else make()

        canonical = canonical_page(_quarantine_filters(query), anchor, limit, QUARANTINE_KEYS.pack)
        return await self._find_page(kind, query.repository, canonical, read, query.now)

    async def get_quarantine(
        self, repository: RepositoryName, quarantine_id: uuid.UUID, now: datetime
    ) -> Answer | None:
        """Return one quarantine of the repository, if it is in force at that moment."""

        async def read() -> Answer | None:
            found = await self._reader.get_quarantine(repository, quarantine_id, now)
            if found is None:
                return None
            return make_answer(_encode_quarantine(found), since=now, until=found.expires_at)

        key = key_of_item(Kind.QUARANTINE, repository, quarantine_id.bytes)
        return await self._find(key, read, now)

    async def find_owned(self, owner: str, canonical: bytes, read: Read) -> Answer:
        """Return the cached result of `read` for an owner and the request `canonical`."""
        key = key_of_owner(owner, canonical)
        found: Answer | None = await self._session.find(key, read, ANSWER_CODEC)
        return _present(found)

    async def find_trend(self, repository: RepositoryName, canonical: bytes, read: Read) -> Answer:
        """Return the cached result of `read`, a trend, for the request `canonical`."""
        return await self._find_page(Kind.TREND, repository, canonical, read)

    async def count_health(self, query: DayQuery) -> HealthCounts:
        """Count how the health of the repository's tests changed. Several series share one read.

        Filters by pipeline or job do not apply: a test counts whatever jobs it runs in.
        """

        async def read() -> HealthCounts:
            return await self._reader.count_health(query)

        canonical = orjson.dumps([query.first_day, query.last_day])
        key = key_of_answer(Kind.HEALTH_COUNTS, query.repository, canonical)
        found = await self._session.find(key, read, HEALTH_COUNTS_CODEC)
        return _present(found)

    async def find_groups(self, repository: RepositoryName, canonical: bytes, read: Read) -> Answer:
        """Return the cached result of `read`, groups of tests, for the request `canonical`."""
        return await self._find_page(Kind.GROUPS, repository, canonical, read)

    async def find_filepaths(
        self, repository: RepositoryName, read: Callable[[], Coroutine[Any, Any, Sequence[str]]]
    ) -> Sequence[str]:
        """Return the cached result of `read`, all files of the repository's tests."""
        key = key_of_answer(Kind.FILEPATHS, repository, b"")
        found: Sequence[str] | None = await self._session.find(key, read, FILEPATHS_CODEC)
        return _present(found)

    async def find_files(
        self,
        repository: RepositoryName,
        owners: tuple[str, ...],
        read: Callable[[], Coroutine[Any, Any, FileSelection]],
    ) -> FileSelection:
        """Return the cached result of `read`, the files of these owners."""
        key = key_of_answer(Kind.FILES, repository, orjson.dumps(owners))
        found: FileSelection | None = await self._session.find(key, read, FILES_CODEC)
        return _present(found)

    async def _find(self, key: CacheKey, read: Read, now: datetime | None = None) -> Answer | None:
        """Return the cached answer, or read it. Pass `now` if it depends on the time."""
        if now is None:
            return await self._session.find(key, read, ANSWER_CODEC)
        return await self._session.find(key, read, ANSWER_CODEC, lambda found: found.holds_at(now))

    async def _find_page(
        self,
        kind: Kind,
        repository: RepositoryName,
        canonical: bytes,
        read: Read,
        now: datetime | None = None,
    ) -> Answer:
        return _present(await self._find(key_of_answer(kind, repository, canonical), read, now))

    async def _find_identity_key(
        self, repository: RepositoryName, place: IdentityPlace | None
    ) -> IdentityKey | None:
        if not isinstance(place, IdentityReference):
            return place
        found = await self._reader.find_identity(repository, place.identity_id)
        if found is None:
            raise problems.stale_cursor()
        # The values in the cursor: the next page continues there, not where the row is now.
        names = (found.test_name, found.pipeline_name, found.job_name)
        return IdentityKey(place.executions_count, *names, value=place.value)


def _present(found: V | None) -> V:
    if found is None:
        raise RuntimeError("lists and counts always have an answer")
    return found
