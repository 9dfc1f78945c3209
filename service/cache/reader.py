"""Reads the store through the cache: each answer is read once, shaped by its schema, and cached.

Knows no request: access was decided before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any, Final

import orjson

from indexing.models.keys import ApplicationKey
from indexing.models.paging import Anchor, Page
from indexing.models.quarantines import Quarantine, QuarantineKey, QuarantineQuery
from indexing.models.tests import IdentityKey, TestIdentity, TestQuery
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.cache.answers import Answer, make_answer, pack_answer, unpack_answer
from service.cache.codecs import REPOSITORY_CODEC, Codec, application_key_codec
from service.cache.keys import (
    Kind,
    key_of_answer,
    key_of_credential,
    key_of_quarantine,
    key_of_repository,
    key_of_test,
)
from service.cache.session import CacheSession
from service.http import problems
from service.pagination.cursor import Position
from service.pagination.page_ends import pack_ends
from service.pagination.sort_keys import (
    IDENTITY_KEYS,
    QUARANTINE_KEYS,
    IdentityPlace,
    IdentityReference,
    place_identity,
)
from service.schemas.compiled import compile_encoder
from service.schemas.responses import (
    QuarantineAnswer,
    QuarantinesAnswer,
    Rows,
    TestDetailAnswer,
    TestPageAnswer,
)

_encode_test: Final = compile_encoder(TestDetailAnswer)
_encode_tests: Final = compile_encoder(TestPageAnswer)
_encode_quarantine: Final = compile_encoder(QuarantineAnswer)
_encode_quarantines: Final = compile_encoder(QuarantinesAnswer)

_ANSWER_CODEC: Final = Codec(pack_answer, unpack_answer, lambda answer: answer.size)


async def find_key(session: CacheSession, reader: Reader, digest: bytes) -> ApplicationKey | None:
    """The application key with that SHA-256, revoked and expired ones included."""

    async def read() -> ApplicationKey | None:
        return await reader.find_key(digest)

    return await session.find(key_of_credential(digest), read, application_key_codec(digest))


async def find_repository(
    session: CacheSession, reader: Reader, name: RepositoryName
) -> RepositoryName | None:
    """The stored spelling of a known repository."""

    async def read() -> RepositoryName | None:
        found = await reader.find_repository(name)
        return None if found is None else found.name

    return await session.find(key_of_repository(name), read, REPOSITORY_CODEC)


async def get_test(
    session: CacheSession, reader: Reader, repository: RepositoryName, test_id: uuid.UUID
) -> Answer | None:
    """The detail of one test of the repository."""

    async def read() -> Answer | None:
        found = await reader.get_test(repository, test_id)
        return None if found is None else make_answer(_encode_test(found))

    return await session.find(key_of_test(repository, test_id), read, _ANSWER_CODEC)


async def search_tests(
    session: CacheSession,
    reader: Reader,
    query: TestQuery,
    position: Position[IdentityPlace],
    per_page: int,
) -> Answer:
    """One page of the test search.

    Raises:
        Problem: 409 where the row that the page lies beside is gone.
    """
    canonical = orjson.dumps(
        [
            query.patterns,
            query.sort,
            query.descending,
            query.pipelines,
            query.pipelines_excluded,
            query.jobs,
            query.jobs_excluded,
            position.backward,
            per_page,
        ]
    )
    if position.key is not None:
        canonical += IDENTITY_KEYS.pack(position.key)

    async def read() -> Answer:
        key = await _find_identity_key(reader, query.repository, position.key)
        page = await reader.search_tests(query, Anchor(key, position.backward), per_page)
        body = _encode_tests(Rows(page.rows, per_page))
        return make_answer(body, pack_ends(page, _place_of, IDENTITY_KEYS))

    return await _find_some(session, Kind.SEARCH, query.repository, canonical, read)


async def list_quarantines(
    session: CacheSession,
    reader: Reader,
    query: QuarantineQuery,
    anchor: Anchor[QuarantineKey],
    limit: int | None,
) -> Answer:
    """One page of the quarantines in force at `query.now`, or all of them without a limit."""
    canonical = orjson.dumps([query.branch, query.test_id, query.source, anchor.backward, limit])
    if anchor.key is not None:
        canonical += QUARANTINE_KEYS.pack(anchor.key)

    async def read() -> Answer:
        page = await reader.list_quarantines(query, anchor, limit)
        beside = await _read_neighbours(reader, query, page)
        return make_answer(
            _encode_quarantines(Rows(page.rows)),
            pack_ends(page, _key_of, QUARANTINE_KEYS),
            query.now,
            _soonest_end((*page.rows, *beside)),
        )

    return await _find_some(
        session,
        Kind.QUARANTINES,
        query.repository,
        canonical,
        read,
        lambda answer: answer.holds_at(query.now),
    )


async def get_quarantine(
    session: CacheSession,
    reader: Reader,
    repository: RepositoryName,
    quarantine_id: uuid.UUID,
    now: datetime,
) -> Answer | None:
    """One quarantine of the repository that is in force at that moment."""

    async def read() -> Answer | None:
        found = await reader.get_quarantine(repository, quarantine_id, now)
        if found is None:
            return None
        return make_answer(_encode_quarantine(found), since=now, until=found.expires_at)

    return await session.find(
        key_of_quarantine(repository, quarantine_id),
        read,
        _ANSWER_CODEC,
        lambda answer: answer.holds_at(now),
    )


async def _find_some(
    session: CacheSession,
    kind: Kind,
    repository: RepositoryName,
    canonical: bytes,
    read: Callable[[], Coroutine[Any, Any, Answer]],
    holds: Callable[[Answer], bool] = lambda _: True,
) -> Answer:
    found = await session.find(
        key_of_answer(kind, repository, canonical), read, _ANSWER_CODEC, holds
    )
    if found is None:
        raise RuntimeError("a list always has an answer")
    return found


async def _find_identity_key(
    reader: Reader, repository: RepositoryName, place: IdentityPlace | None
) -> IdentityKey | None:
    if not isinstance(place, IdentityReference):
        return place
    found = await reader.find_identity(repository, place.identity_id)
    if found is None:
        raise problems.stale_cursor()
    # The count as it was: the next page continues there, not where the row is now.
    return IdentityKey(place.executions_count, found.test_name, found.pipeline_name, found.job_name)


async def _read_neighbours(
    reader: Reader, query: QuarantineQuery, page: Page[Quarantine]
) -> tuple[Quarantine, ...]:
    """The rows beside a page: with the end of one, the page on that side may be gone."""
    beside: tuple[Quarantine, ...] = ()
    if page.rows and page.has_previous:
        before = Anchor(page.rows[0].key, backward=True)
        beside += (await reader.list_quarantines(query, before, 1)).rows
    if page.rows and page.has_next:
        after = Anchor(page.rows[-1].key)
        beside += (await reader.list_quarantines(query, after, 1)).rows
    return beside


def _soonest_end(rows: Iterable[Quarantine]) -> datetime | None:
    return min((row.expires_at for row in rows if row.expires_at is not None), default=None)


def _place_of(row: TestIdentity) -> IdentityPlace:
    return place_identity(row.key, row.identity_id)


def _key_of(row: Quarantine) -> QuarantineKey:
    return row.key
