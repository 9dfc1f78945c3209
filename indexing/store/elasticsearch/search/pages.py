"""Searches the identity index, page by page."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from indexing import globs
from indexing.glob_set import GlobSet
from indexing.identifiers import derive_identity_id, make_test_id_deriver
from indexing.models.paging import Anchor, Page
from indexing.models.tests import VALUE_SORTS, IdentityKey, TestIdentity, TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import paging
from indexing.store.elasticsearch.client.combined_reads import CombinedReads
from indexing.store.elasticsearch.client.documents import Hit
from indexing.store.elasticsearch.client.failures import TooComplexError, TooManyTermsError
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.search.quarantined import find_quarantined, mark_quarantined
from indexing.store.elasticsearch.search.query import (
    FILE,
    MISSING,
    ORDERS,
    Prepared,
    Width,
    all_patterns,
    choose_width,
    files_clause,
    is_cheap,
    is_prefix,
    is_tied,
    make_query,
    name_in,
    values_of,
)
from indexing.store.elasticsearch.search.shortcuts import (
    Shortcut,
    find_shortcut,
    make_shortcut_query,
)
from indexing.store.row_values import RowValues
from indexing.yielding import LoopYielder

T = TypeVar("T")

# The stored metrics, each with the value to show if an earlier release wrote the row without it.
METRICS_FIELDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(RowValues._fields),
    **MISSING,
    "latest_verdicts": "",
}

# A search with more patterns has a request of its own.
_FEW_PATTERNS: Final = 4

# A scan reads ten times as many rows as its page has, so it is not for repositories whose names
# have more characters than this on average. Names change seldom, so that holds for some time.
_SHORT: Final = 500
_SHORT_NAMES_SECONDS: Final = 3_600.0

_COUNT: Final = "executions_count"
_COUNTED_AT_ONCE: Final = 500
_KEY_FIELDS: Final = (_COUNT, "test_name", "pipeline_name", "job_name")


async def search_tests(
    cluster: Cluster, query: TestQuery, anchor: Anchor[IdentityKey], limit: int
) -> Page[TestIdentity]:
    prepared = await _prepare(cluster, query)
    read = partial(_search, cluster, query, anchor, limit, prepared)
    shortcut = find_shortcut(query)
    if shortcut is not None and await _can_use(cluster, query, shortcut):
        with suppress(paging.SurplusError, TooManyTermsError):
            return await read(shortcut)
    return await _in_widths(cluster, query, read)


async def _can_use(cluster: Cluster, query: TestQuery, shortcut: Shortcut) -> bool:
    if shortcut is Shortcut.TRIGRAMS:
        return await cluster.control.has_trigrams()
    return _has_short_names(cluster, query) is not False


async def count_matches(cluster: Cluster, query: TestQuery, most: int) -> int:
    """Return how many rows the search finds, or `most` if they are more."""
    prepared = await _prepare(cluster, query)

    async def count(width: Width) -> int:
        if width is Width.EXACT:
            routing = routing_of(query.repository)
            body = {
                "size": 0,
                "query": make_query(query, routing, prepared, width=width),
                "track_total_hits": most,
            }
            answer = await cluster.connection.search(
                cluster.layout.identities, body, routing=routing
            )
            total: int = answer["hits"]["total"]["value"]
            return min(total, most)
        found, more = 0, True
        anchor: Anchor[IdentityKey] = Anchor()
        while more and found < most:
            page = await _search(cluster, plain, anchor, _COUNTED_AT_ONCE, prepared, width)
            found += len(page.rows)
            more = page.has_next
            anchor = Anchor(page.rows[-1].key) if page.rows else anchor
        return min(found, most)

    plain = replace(query, with_metrics=False)
    return await _in_widths(cluster, query, count)


async def _prepare(cluster: Cluster, query: TestQuery) -> Prepared:
    quarantined: Collection[str] = ()
    if query.quarantined is not None:
        quarantined = await find_quarantined(cluster, query.repository, query.now)
    if query.files is None:
        return Prepared(quarantined)
    routing = routing_of(query.repository)
    if query.files.is_large:
        files = await asyncio.to_thread(files_clause, query.files, routing)
    else:
        files = files_clause(query.files, routing)
    return Prepared(quarantined, files)


async def _in_widths(
    cluster: Cluster, query: TestQuery, read: Callable[[Width], Awaitable[T]]
) -> T:
    """Read with the most exact width that the engine can afford; expensive reads are queued."""
    is_large = query.files is not None and query.files.is_large
    patterns = all_patterns(query)
    if is_cheap(patterns) and not is_large:
        with suppress(TooComplexError):
            return await read(Width.EXACT)
    async with cluster.searches.slot():
        for width in (Width.EXACT, Width.WIDENED):
            if width.value < choose_width(patterns).value:
                continue
            with suppress(TooComplexError):
                return await read(width)
        return await read(Width.PREFIX)


async def _search(
    cluster: Cluster,
    query: TestQuery,
    anchor: Anchor[IdentityKey],
    limit: int,
    prepared: Prepared,
    how: Width | Shortcut,
) -> Page[TestIdentity]:
    """Read a page of the names of that width, or by a shortcut.

    Raises:
        paging.SurplusError: the shortcut finds too many rows that do not match.
    """
    routing = routing_of(query.repository)
    key = anchor.key
    exact = how is Width.EXACT
    file = (FILE,) if query.filepaths and not exact else ()
    order = ORDERS[query.sort]
    # The documents are not read if all values of a row are in columns.
    whole = query.with_metrics or bool(file)
    columns = () if _COUNT in order else (_COUNT,)
    metrics = METRICS_FIELDS if query.with_metrics else ()
    page, _ = await paging.read_page(
        cluster.connection,
        paging.List(
            index=cluster.layout.identities,
            routing=routing,
            query=make_shortcut_query(how, query, routing, prepared)
            if isinstance(how, Shortcut)
            else make_query(query, routing, prepared, width=how),
            order=order,
            ascending=not query.descending,
            fields=("test_id", *dict.fromkeys((*_KEY_FIELDS, *metrics)), *file),
            columns=None if whole else columns,
            missing=MISSING,
            is_tied=key is not None and is_tied(key, query.sort),
        ),
        partial(_row_of if whole else _row_of_values, query),
        beside=None if key is None else _beside(query, key),
        backward=anchor.backward,
        limit=limit,
        keep=None if exact else _matching(cluster, query, how),
        spare=how.value if isinstance(how, Shortcut) else None,
        combined=_combined(cluster, query, prepared, how, backward=anchor.backward),
    )
    return await mark_quarantined(cluster, query, page) if query.with_metrics else page


def _combined(
    cluster: Cluster,
    query: TestQuery,
    prepared: Prepared,
    how: Width | Shortcut,
    *,
    backward: bool,
) -> tuple[CombinedReads, Hashable] | None:
    """Return how to send the search together with others that cost about as much.

    A pattern walks all names of the repository. A prefix and trigrams walk few, and a scan reads
    ten times as many rows as its page has.
    """
    patterns = all_patterns(query)
    if (
        how in (Width.WIDENED, Width.PREFIX)
        or len(patterns) > _FEW_PATTERNS
        or not is_cheap(patterns)
        or prepared != Prepared()
    ):
        return None
    walks_all = how is Width.EXACT and not all(map(is_prefix, patterns))
    scans = how is Shortcut.SCAN
    # The answers are decoded at once, so names that may be long are read alone.
    if scans and not _has_short_names(cluster, query):
        return None
    return cluster.combined_reads, (query.repository, query.sort, backward, walks_all, scans)


async def find_identity(
    cluster: Cluster, repository: RepositoryName, identity_id: bytes
) -> IdentityKey | None:
    found = await cluster.connection.get(
        cluster.layout.identities, identity_id.hex(), routing=routing_of(repository)
    )
    if found is None or found.source["repository_id"] != routing_of(repository):
        return None
    return _key_of(found.source)


def _beside(query: TestQuery, key: IdentityKey) -> paging.Beside:
    identity_id = derive_identity_id(
        query.repository, key.test_name, key.pipeline_name, key.job_name
    )
    values = values_of(key, query.sort, routing_of(query.repository))
    # The value is part of the query, because the same row with another value has another position.
    sorted_by: TestSort = query.sort if query.sort in VALUE_SORTS else TestSort.EXECUTIONS_COUNT
    value = key.executions_count if key.value is None else key.value
    count = {"term": {sorted_by.value: value}}
    itself = {"bool": {"filter": [{"ids": {"values": [identity_id.hex()]}}, count]}}
    return paging.Beside(values, itself)


def _matching(cluster: Cluster, query: TestQuery, how: Width | Shortcut) -> paging.Keep:
    """Return what drops the hits that do not match."""
    if len(query.patterns) == 1 and not query.patterns_excluded and not query.filepaths:
        keep: paging.Keep = partial(_keep_matches, query.patterns[0], query.sort)
    else:
        keep = _Matcher(query).keep
    return partial(_note_names, cluster, query, keep) if how is Shortcut.SCAN else keep


async def _note_names(
    cluster: Cluster, query: TestQuery, keep: paging.Keep, hits: Sequence[Hit]
) -> Sequence[Hit]:
    """Note for later scans whether the names of the repository are short."""
    if hits:
        length = sum(len(name_in(hit["sort"], query.sort)) for hit in hits)
        routing = routing_of(query.repository)
        deadline = time.monotonic() + _SHORT_NAMES_SECONDS
        is_short = length <= _SHORT * len(hits)
        cluster.short_names.keep(routing, is_short, size=len(routing), deadline=deadline)
    return await keep(hits)


def _has_short_names(cluster: Cluster, query: TestQuery) -> bool | None:
    """Return whether the names of the repository are short; None if that is not known."""
    return cluster.short_names.find(routing_of(query.repository))


async def _keep_matches(pattern: str, sort: TestSort, hits: Sequence[Hit]) -> list[Hit]:
    yielder = LoopYielder()
    found = []
    for hit in hits:
        if globs.matches(pattern, name_in(hit["sort"], sort)):
            found.append(hit)
        await yielder.yield_if_due()
    return found


class _Matcher:
    """Filters the hits of a query that also finds rows that do not match."""

    def __init__(self, query: TestQuery) -> None:
        self._sort = query.sort
        self._names = GlobSet(query.patterns)
        self._excluded = GlobSet(query.patterns_excluded) if query.patterns_excluded else None
        self._files = GlobSet(query.filepaths) if query.filepaths else None

    async def keep(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits that match; yields to the event loop regularly."""
        yielder = LoopYielder()
        found = []
        for hit in hits:
            if await self._matches(hit, yielder):
                found.append(hit)
            await yielder.yield_if_due()
        return found

    async def _matches(self, hit: Hit, yielder: LoopYielder) -> bool:
        name = name_in(hit["sort"], self._sort)
        if not await _matches_any(self._names, name, yielder):
            return False
        if self._excluded is not None and await _matches_any(self._excluded, name, yielder):
            return False
        if self._files is None:
            return True
        _, _, file = hit["_source"][FILE].partition("\0")
        return await _matches_any(self._files, file, yielder)


async def _matches_any(patterns: GlobSet, text: str, yielder: LoopYielder) -> bool:
    if patterns.matches_fixed(text):
        return True
    for pattern in patterns.find_possible(text):
        await yielder.yield_if_due()
        if globs.matches(pattern, text):
            return True
    return False


def _row_of_values(query: TestQuery, hit: Hit) -> TestIdentity:
    order = ORDERS[query.sort]
    if order == _KEY_FIELDS:
        key = IdentityKey(*hit["sort"])
    else:
        values = dict(zip(order, hit["sort"], strict=True))
        values["test_name"] = name_in(hit["sort"], query.sort)
        values[_COUNT] = hit["fields"][_COUNT][0]
        key = _key_in_order(query, values, hit)
    return TestIdentity(make_test_id_deriver(query.repository)(key.test_name), key)


def _row_of(query: TestQuery, hit: Hit) -> TestIdentity:
    source = hit["_source"]
    metrics = None
    if query.with_metrics:
        values = (source.get(field, missing) for field, missing in METRICS_FIELDS.items())
        metrics = RowValues(*values).metrics(is_quarantined=False)
    return TestIdentity(
        uuid.UUID(source["test_id"]),
        _key_in_order(query, source, hit),
        metrics,
    )


def _key_in_order(query: TestQuery, source: Mapping[str, Any], hit: Hit) -> IdentityKey:
    key = _key_of(source)
    return key._replace(value=hit["sort"][0]) if query.sort in VALUE_SORTS else key


def _key_of(source: Mapping[str, Any]) -> IdentityKey:
    return IdentityKey(*(source[field] for field in _KEY_FIELDS))
