"""A store on a real node, opened twice: the second one stands for another process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import event_days, event_filtering
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
    """Store counts of the event log by value however few events it has."""
    monkeypatch.setattr(event_days, "WORTHWHILE", 1)
    monkeypatch.setattr(event_days, "_WORTHWHILE_MATCHES", 1)
    monkeypatch.setattr(event_filtering, "_READING", 0)
    monkeypatch.setattr(event_filtering, "_SMALL_DAY", 1)
