"""Programs that know another version of the layout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch import maintenance
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices import control, layout, setup, templates, upgrade
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, TEMPLATES_VERSION


@pytest.fixture
def of_version(
    monkeypatch: pytest.MonkeyPatch, elasticsearch_place: ElasticsearchPlace
) -> Iterator[Callable[[int], None]]:
    """Make this program one that knows the layout of that version."""

    def be(version: int) -> None:
        for module in (control, setup, upgrade, maintenance, layout):
            monkeypatch.setattr(module, "LAYOUT_VERSION", version)
        number = TEMPLATES_VERSION + version - LAYOUT_VERSION
        for module in (templates, layout):
            monkeypatch.setattr(module, "TEMPLATES_VERSION", number)

    yield be
    # Templates outlive the indices of a test, and an older one never replaces a newer one.
    asyncio.run(drop_templates(elasticsearch_place))


async def drop_templates(place: ElasticsearchPlace) -> None:
    connection = Connection(place.urls)
    for kind in ("_index_template", "_component_template"):
        await connection.request("DELETE", f"/{kind}/{place.prefix}-*", allow={404})
    await connection.close()
