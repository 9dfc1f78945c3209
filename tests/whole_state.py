"""Everything that can be read from a store, so that two stores can be compared.

It omits what depends on the order of operations: when automatic quarantines and settings events
were created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

from indexing.models.events import EventQuery
from indexing.models.groups import Grouping
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery
from indexing.models.tests import TestDetail, TestQuery
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import Reader, StoreStatus
from tests.builders import NOON
from tests.contracts.walking import walk_forwards
from tests.places import Place

PAGE = 500
# More concurrent reads would only wait for each other.
DETAILS_AT_ONCE = 16
FROM, TO = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
OF_SETTINGS = b'"type":"ci_insights.auto_quarantine.'
# Each backend has its own schema version.
NOT_COMPARED = frozenset({"backend", "version", "known_version"})


async def read_all(place: Place, repositories: Sequence[RepositoryName]) -> list[str]:
    """A line for each thing in the store of that place."""
    store = await open_store(place)
    try:
        status = asdict(await store.get_status(NOON))
        found = [f"{name} {count}" for name, count in status.items() if name not in NOT_COMPARED]
        for repository in repositories:
            found += await _read_repository(store, repository)
        return found
    finally:
        await store.close()


async def read_status(place: Place) -> StoreStatus:
    """The status of the store in that place."""
    store = await open_store(place)
    try:
        return await store.get_status(NOON)
    finally:
        await store.close()


async def _read_repository(reader: Reader, repository: RepositoryName) -> list[str]:
    events = await walk_forwards(
        lambda anchor: reader.list_events(EventQuery(repository, FROM, TO), anchor, PAGE)
    )
    found = [repr(row) for row in events if OF_SETTINGS not in row.body]
    rows = await walk_forwards(
        lambda anchor: reader.search_tests(TestQuery(repository, ("*",)), anchor, PAGE)
    )
    found += [repr(row) for row in rows]
    tests = sorted({row.test_id for row in rows})
    for start in range(0, len(tests), DETAILS_AT_ONCE):
        ask = partial(reader.get_test, repository)
        details = await asyncio.gather(*map(ask, tests[start : start + DETAILS_AT_ONCE]))
        assert all(isinstance(detail, TestDetail) for detail in details)
        found += map(repr, details)
    for by in (Grouping.PIPELINE, Grouping.JOB, Grouping.DIRECTORY):
        found += map(repr, await reader.group_tests(repository, by, PAGE))
    page = await reader.list_quarantines(QuarantineQuery(repository, TO), Anchor(), None)
    found += sorted(
        repr((q.test_name, q.reason, q.branch, q.source, q.owner, q.expires_at, q.is_recovered))
        for q in page.rows
    )
    return found
