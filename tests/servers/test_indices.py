"""A test does not see what the test before it left in the shared indices."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, after, load_names, make_event
from tests.indexing.store.elasticsearch.inspection import ask, open_at
from tests.servers.indices import MOST_SLICES, Indices, IndicesError

# Several test processes share the node.
PREFIX = f"test-{os.getpid()}-indices"
LAYOUT = Layout(PREFIX)
# Changes beyond documents that a test may leave behind, one request each.
CHANGES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "an index closed": ("POST", f"/{LAYOUT.tests}/_close", None),
    "an index deleted": ("DELETE", f"/{LAYOUT.runs}", None),
    "an index added": ("PUT", f"/{PREFIX}-other", {}),
    "a generation added": ("PUT", f"/{LAYOUT.identities_of('2')}", {}),
    "a setting": ("PUT", f"/{LAYOUT.tests}/_settings", {"index": {"refresh_interval": "1h"}}),
    "a write block": ("PUT", f"/{LAYOUT.events}/_block/write", None),
    "a mapping": ("PUT", f"/{LAYOUT.stale}/_mapping", {"properties": {"new": {"type": "long"}}}),
    "an alias": ("PUT", f"/{LAYOUT.tests}/_alias/{PREFIX}-alias", {}),
    "a template": ("PUT", f"/_component_template/{PREFIX}-tests@custom", {"template": {}}),
    "a slice of another form": (
        "PUT",
        f"/{LAYOUT.events_of('2026-01')}",
        {"mappings": {"properties": {"base_ref": {"type": "long"}}}},
    ),
}


@pytest.fixture(scope="module")
def indices(elasticsearch_url: str) -> Iterator[Indices]:
    made = Indices(elasticsearch_url, PREFIX)
    yield made
    made.close()


async def contents_of(store: ElasticsearchStore) -> dict[str, Any]:
    """The documents of every index, by index name."""
    answer = await ask(store, "POST", f"/{PREFIX}-*/_search?size=10000", {"sort": "_doc"})
    return {f"{hit['_index']} {hit['_id']}": hit["_source"] for hit in answer["hits"]["hits"]}


async def forms_of(store: ElasticsearchStore) -> list[str]:
    """The definition of each index, except of slices that match their template."""
    found = await ask(store, "GET", f"/{PREFIX}-*?expand_wildcards=all")
    return sorted(
        f"{name} {sorted(form['aliases'])} {form['mappings']}" for name, form in found.items()
    )


async def renewed(indices: Indices) -> ElasticsearchStore:
    await asyncio.to_thread(indices.renew)
    return await open_at(indices.place)


async def test_documents_are_gone_and_the_indices_stay(indices: Indices) -> None:
    store = await renewed(indices)
    before, first = await ask(store, "GET", f"/{PREFIX}-*/_settings"), await store.get_identity()
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1)])
    await load_names(store, [f"t{number}" for number in range(100)])
    await store.close()

    store = await renewed(indices)
    assert list(await contents_of(store)) == [f"{LAYOUT.control} store"]
    assert await ask(store, "GET", f"/{PREFIX}-*/_settings") == before
    assert await store.get_identity() != first
    assert await store.find_repository(WIDGETS) is None
    await store.close()


async def test_a_store_that_several_tests_share_cannot_be_reset(indices: Indices) -> None:
    with indices.reserve() as place, pytest.raises(IndicesError, match="different modules"):
        indices.renew()
    store = await open_at(place)
    await store.close()
    store = await renewed(indices)
    assert list(await contents_of(store)) == [f"{LAYOUT.control} store"]
    await store.close()


async def test_slices_of_many_months_do_not_stay(indices: Indices) -> None:
    store = await renewed(indices)
    before = await forms_of(store)
    months = [after(days=-31 * number) for number in range(2 * MOST_SLICES)]
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(number, at) for number, at in enumerate(months)])
    assert len(await forms_of(store)) > len(before) + MOST_SLICES
    await store.close()

    store = await renewed(indices)
    assert await forms_of(store) == before
    await store.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_was_changed_is_as_in_a_new_store(indices: Indices, change: str) -> None:
    store = await renewed(indices)
    await ask(store, "DELETE", f"/{LAYOUT.events_of('2026-01')}?ignore_unavailable=true")
    before = await forms_of(store)
    await ask(store, *CHANGES[change])
    await store.close()

    store = await renewed(indices)
    assert await forms_of(store) == before
    templates = await ask(store, "GET", f"/_component_template/{PREFIX}-*")
    assert len(templates["component_templates"]) == len(LAYOUT.components)
    await store.close()
