"""Slices are created explicitly, from the templates, and again after they were deleted."""

from __future__ import annotations

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.indices.layout import EVENTS_MAPPING
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome, ExecutionCount
from tests.builders import NOON, WIDGETS, after, load_names, make_event, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import (
    ask,
    cluster_of,
    event_ids,
    indices_of,
    names,
)


@pytest.mark.fresh_indices
async def test_a_slice_that_was_deleted_meanwhile_is_created_again(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    await store.write_events([make_event(1, after(days=-70)), make_event(2)])
    await other.prune(after(days=-35), NOON)
    assert await indices_of(store, "events") == ["2026-09"]
    # This process still believes that the slice exists.
    both = [make_event(1, after(days=-70)), make_event(3)]
    assert await store.write_events(both) == [EventOutcome.WRITTEN, EventOutcome.WRITTEN]
    assert await indices_of(store, "events") == ["2026-06", "2026-09"]
    assert await event_ids(store) == [3, 2, 1]


async def test_executions_of_a_deleted_slice_can_be_stored_again(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    executions = make_executions(run, [("t", Conclusion.PASSED)])
    assert await store.write_results(WIDGETS, {run: executions}) == ExecutionCount(1, 0)
    await ask(store, "DELETE", f"/{cluster_of(store).layout.executions_of('2026-09')}")
    assert await store.write_results(WIDGETS, {run: executions}) == ExecutionCount(1, 0)
    await store.refresh_tests(NOON)
    assert await names(store) == ["t"]


async def test_a_slice_has_our_mapping_even_without_templates(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    layout = cluster_of(store).layout
    await ask(store, "DELETE", f"/_index_template/{layout.prefix}-events")
    await store.write_events([make_event(1)])
    found = await ask(store, "GET", f"/{layout.events_of('2026-09')}/_mapping")
    (index,) = found.values()
    assert index["mappings"]["dynamic"] == "false"
    assert index["mappings"]["properties"].keys() == EVENTS_MAPPING.keys()


@pytest.mark.fresh_indices
async def test_a_slice_that_cannot_be_created_fails_its_own_writes_only(
    store: ElasticsearchStore,
) -> None:
    await store.ensure_repository(WIDGETS)
    layout = cluster_of(store).layout
    refused, created = layout.events_of("2026-07"), layout.events_of("2026-08")
    # No index may have the name of an alias.
    await ask(store, "PUT", f"/{layout.control}/_alias/{refused}")
    failed, written = await cluster_of(store).slices.send_each(
        [Operation("create", index, "1", "1", {}) for index in (refused, created)]
    )
    assert isinstance(failed, StoreUnavailableError)
    assert isinstance(written, Outcome)
    assert not written.failed


async def test_no_write_creates_an_index(store: ElasticsearchStore) -> None:
    layout = cluster_of(store).layout
    for index in (layout.events_of("2026-01"), layout.identities_of("gone")):
        operation = Operation("index", index, "1", None, {})
        with pytest.raises(StoreUnavailableError, match=index):
            await bulk.send(cluster_of(store).connection, [operation], visible=False)
    assert await indices_of(store, "identities") == ["1"]


async def test_a_missing_search_index_is_reported_and_nothing_is_lost(
    store: ElasticsearchStore,
) -> None:
    await load_names(store, ["t"])
    await ask(store, "DELETE", f"/{cluster_of(store).layout.identities_of('1')}")
    run = make_run("2")
    await store.write_results(WIDGETS, {run: make_executions(run, [("u", Conclusion.PASSED)])})
    with pytest.raises(StoreUnavailableError, match="identities-1 is gone"):
        await store.refresh_tests(NOON)
    await ask(
        store,
        "PUT",
        f"/{cluster_of(store).layout.identities_of('1')}",
        {"aliases": {cluster_of(store).layout.identities: {}}},
    )
    assert await store.refresh_tests(NOON) == 1
    assert await names(store) == ["u"]
