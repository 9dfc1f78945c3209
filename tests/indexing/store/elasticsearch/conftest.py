"""A store on a real node, opened twice: the second one stands for another process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import event_whole_days
from indexing.store.elasticsearch.derived import stored_markers
from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.indexing.store.elasticsearch.inspection import open_at


@pytest.fixture
async def store(elasticsearch_place: ElasticsearchPlace) -> AsyncIterator[ElasticsearchStore]:
    opened = await open_at(elasticsearch_place)
    yield opened
    await opened.close()


@pytest.fixture
async def other(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> AsyncIterator[ElasticsearchStore]:
    """The same store as another process opens it."""
    opened = await open_at(elasticsearch_place)
    yield opened
    await opened.close()


@pytest.fixture
def few_events_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tables of the event log however few events it has."""
    monkeypatch.setattr(event_whole_days, "WORTHWHILE", 1)
    monkeypatch.setattr(event_whole_days, "_WORTHWHILE_MATCHES", 1)


@pytest.fixture
def one_marker_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a refresh read and handle one dirty marker after the other."""
    monkeypatch.setattr(stored_markers, "_MARKERS_A_PAGE", 1)
    monkeypatch.setattr(stored_markers, "_TESTS_AT_ONCE", 1)


@pytest.fixture
def nobody_waits_for_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a refresh go on without the lease soon."""
    monkeypatch.setattr(refresh_lease, "WAIT_SECONDS", 0.2)


@pytest.fixture
def leases_expire_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a refresh go on soon after the process that held the lease was killed."""
    monkeypatch.setattr(refresh_lease, "EXPIRES_SECONDS", 0.05)
    monkeypatch.setattr(refresh_lease, "LOOK_SECONDS", 0.01)
