"""Sends small reads that begin at about the same time in one request.

Under load, a request costs this process and the node more than the document or search in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client.answers import raise_first
from indexing.store.elasticsearch.client.batches import Batches
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Place, Search

# A response is decoded at once, which must not block the event loop for long. And all searches of
# a request wait for the slowest one.
_SEARCHES_A_REQUEST: Final = 8
_READS_A_REQUEST: Final = 32
# How long a read waits for the end of earlier ones, to share the next request. A search of a small
# index takes a node a tenth of this.
_HOLD: Final = 0.005

_PAUSE: Final = 0.05


class _Documents(NamedTuple):
    """The documents that one caller reads, without these fields."""

    places: Sequence[Place]
    without: Sequence[str]


class _Outcome(NamedTuple):
    """The answers to the searches of one caller, or the first error among them."""

    answers: Sequence[Any]
    error: StoreError | None = None


class CombinedReads:
    """The small reads of one process; they raise the errors of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._gets: Batches[_Documents, list[Document | None]] = Batches(
            self._get_all, most=_READS_A_REQUEST, hold=_HOLD
        )
        self._searches: Batches[Sequence[Search], _Outcome] = Batches(
            self._search_all, most=_SEARCHES_A_REQUEST, hold=_HOLD
        )

    async def get_many(
        self, places: Sequence[Place], *, without: Sequence[str] = ()
    ) -> list[Document | None]:
        """Return the current version of each document, as `Connection.get_many` does."""
        return await self._gets.run(tuple(without), _Documents(places, without))

    async def search(self, kind: Hashable, searches: Sequence[Search]) -> Sequence[Any]:
        """Return the answers to the searches, as `Connection.search_many` does.

        All searches of one kind cost about the same, and little. Those of one tenant never wait for
        those of another.
        """
        deadline = asyncio.get_running_loop().time() + self._connection.reading.total
        answers, error = await self._searches.run((current_tenant.get(), kind), searches)
        if error is None:
            return answers
        if not isinstance(error, StoreUnavailableError):
            raise error
        # A cluster answers a request for several searches, even if it refuses some for a moment.
        # The request for a single search is retried, and so is this.
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(_PAUSE)
                return await search_alone(self._connection, searches)
        except TimeoutError:
            raise error from None

    async def _get_all(
        self, calls: Sequence[_Documents]
    ) -> Sequence[list[Document | None] | StoreError]:
        # These are reads of all tenants, so they must not wait as those of the one who came first.
        current_tenant.set(None)
        # Many calls read the document of the same repository.
        places = [*dict.fromkeys(chain.from_iterable(call.places for call in calls))]
        found = await self._connection.get_each(places, without=calls[0].without)
        by_place = dict(zip(places, found, strict=True))
        return [_without_errors([by_place[place] for place in call.places]) for call in calls]

    async def _search_all(self, calls: Sequence[Sequence[Search]]) -> Sequence[_Outcome]:
        if len(calls) == 1:
            return [_Outcome(await search_alone(self._connection, calls[0]))]
        found = iter(await self._connection.search_each([*chain.from_iterable(calls)]))
        return [_outcome_of([*islice(found, len(call))]) for call in calls]


async def search_alone(connection: Connection, searches: Sequence[Search]) -> Sequence[Any]:
    """Return the answers to the searches of one caller, by a request of their own."""
    if len(searches) > 1:
        return await connection.search_many(searches)
    (only,) = searches
    return [await connection.search(only.index, only.body, routing=only.routing)]


def _without_errors(
    found: Sequence[Document | StoreError | None],
) -> list[Document | None] | StoreError:
    try:
        return raise_first(found)
    except StoreError as error:
        return error


def _outcome_of(found: Sequence[Any]) -> _Outcome:
    errors = (each for each in found if isinstance(each, StoreError))
    return _Outcome(found, next(errors, None))
