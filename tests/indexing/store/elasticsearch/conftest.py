"""A store on a real node, opened twice: the second one stands for another process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import event_whole_days
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
