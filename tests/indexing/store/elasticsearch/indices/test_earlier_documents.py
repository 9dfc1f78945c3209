"""Documents that an earlier release stored, after an upgrade of the layout."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from indexing.models.events import EventQuery, Outcome
from indexing.models.executions import Conclusion
from indexing.models.listed_repositories import RepositoryQuery
from indexing.models.notifications import Webhook, WebhookFormat
from indexing.models.paging import Anchor
from indexing.models.tests import HealthStatus, TestMetrics, TestQuery, TestSort
from indexing.names import parse_repository
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.indices import control, layout
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION
from tests.builders import NOON, WIDGETS, after, load_history, load_names, make_event
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, names, open_at

pytestmark = pytest.mark.fresh_indices

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
EVERY_EVENT = EventQuery(WIDGETS, NOON, after(days=1))


async def test_events_of_an_earlier_release_get_their_trigger_and_outcome(
    elasticsearch_place: ElasticsearchPlace, of_version: Callable[[int], None]
) -> None:
    of_version(2)
    store = await open_at(elasticsearch_place)
    await store.ensure_repository(WIDGETS)
    kinds = ["action.queue.leave", "action.merge", "command.queue"]
    await store.write_events(
        [
            make_event(
                n, event_type=kinds[n % 3], trigger="r" * (n + 1), metadata={"merged": False}
            )
            for n in range(300)
        ]
    )
    index = f"{elasticsearch_place.prefix}-events-2026-09"
    found = await ask(store, "GET", f"/{index}/_search?size=300")
    lines = []
    for hit in found["hits"]["hits"]:
        source = {k: v for k, v in hit["_source"].items() if k not in ("trigger", "outcome")}
        about = {"_index": index, "_id": hit["_id"], "routing": hit["_routing"]}
        lines += [orjson.dumps({"index": about}), orjson.dumps(source)]
    await ask(store, "POST", "/_bulk?refresh=true", b"\n".join([*lines, b""]))
    await store.close()
    of_version(3)
    upgraded = await open_at(elasticsearch_place)
    for outcome, kind in zip(
        (Outcome.FAILURE, Outcome.SUCCESS, Outcome.NEUTRAL), kinds, strict=True
    ):
        query = replace(EVERY_EVENT, outcomes=(outcome,))
        rows = (await upgraded.list_events(query, Anchor(), 300)).rows
        assert {orjson.loads(row.body)["type"] for row in rows} == {kind}
        assert len(rows) == 100
    query = replace(EVERY_EVENT, triggers=("r" * 255, "r" * 256))
    assert [row.id for row in (await upgraded.list_events(query, Anchor(), 9)).rows] == [254]
    await upgraded.close()


async def test_long_branches_of_emoji_are_found_in_events_written_after_an_upgrade(
    elasticsearch_place: ElasticsearchPlace,
    of_version: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_version(9)
    emoji = "🧪" * 255
    with monkeypatch.context() as patched:
        patched.setitem(layout.EVENTS_MAPPING, "base_ref", {"type": "keyword", "ignore_above": 255})
        store = await open_at(elasticsearch_place)
        await store.ensure_repository(WIDGETS)
        await store.write_events([make_event(1, base_ref=emoji), make_event(2, base_ref="main")])
        await store.close()
    of_version(LAYOUT_VERSION)
    upgraded = await open_at(elasticsearch_place)
    await upgraded.write_events([make_event(3, base_ref=emoji), make_event(4, base_ref="main")])
    for base_ref, found in ((emoji, [3]), ("main", [4, 2])):
        query = replace(EVERY_EVENT, base_ref=base_ref)
        rows = (await upgraded.list_events(query, Anchor(), 9)).rows
        assert [row.id for row in rows] == found
    await upgraded.close()


async def test_repositories_of_an_earlier_release_are_listed(
    elasticsearch_place: ElasticsearchPlace, of_version: Callable[[int], None]
) -> None:
    of_version(7)
    store = await open_at(elasticsearch_place)
    for name in ("acme/widgets", "Acme/Gadgets", "other/gadgets"):
        await store.ensure_repository(parse_repository(name))
    webhook = Webhook(
        uuid.uuid4(), WIDGETS, WebhookFormat.STANDARD, "https://x.example", b"s" * 24, NOON
    )
    await store.add_webhook(webhook)
    index = f"/{elasticsearch_place.prefix}-control"
    found = await ask(store, "POST", f"{index}/_search", {"size": 9})
    repositories = [hit for hit in found["hits"]["hits"] if "name_key" in hit["_source"]]
    assert len(repositories) == 3
    for hit in repositories:
        kept = {k: v for k, v in hit["_source"].items() if k not in ("owner_key", "name_key")}
        await ask(store, "PUT", f"{index}/_doc/{hit['_id']}?refresh=true", kept)
    query = RepositoryQuery("acme", NOON)
    assert (await store.list_owned(query, Anchor(), 9)).rows == ()
    await store.close()
    of_version(LAYOUT_VERSION)
    upgraded = await open_at(elasticsearch_place)
    rows = (await upgraded.list_owned(query, Anchor(), 9)).rows
    assert [str(row.repository.name) for row in rows] == ["Acme/Gadgets", "acme/widgets"]
    assert await upgraded.list_webhooks(WIDGETS) == [webhook]
    await upgraded.close()


async def test_searches_use_trigrams_once_a_rebuild_has_added_them(
    elasticsearch_place: ElasticsearchPlace,
    of_version: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_version(8)
    store = await open_at(elasticsearch_place)
    await load_names(store, [f"suite.test_{number}" for number in range(30)])
    prefix = elasticsearch_place.prefix
    # Neither the rows of that release nor its store document know of trigrams.
    for index in ("identities", "control"):
        found = await ask(store, "POST", f"/{prefix}-{index}/_search", {"size": 99})
        for hit in found["hits"]["hits"]:
            source = {k: v for k, v in hit["_source"].items() if k != "trigrams"}
            routing = f"routing={hit['_routing']}&" if "_routing" in hit else ""
            target = f"/{hit['_index']}/_doc/{hit['_id']}?{routing}refresh=true"
            await ask(store, "PUT", target, source)
    await store.close()
    of_version(LAYOUT_VERSION)
    monkeypatch.setattr(control, "_REBUILDS_SEEN_SECONDS", 0)
    upgraded, other = await open_at(elasticsearch_place), await open_at(elasticsearch_place)
    query = TestQuery(WIDGETS, ("*_2*",))
    expected = sorted(["suite.test_2", *(f"suite.test_2{number}" for number in range(10))])
    assert await names(upgraded, query) == expected
    assert not await cluster_of(upgraded).control.has_trigrams()
    await other.rebuild(NOON)
    assert await cluster_of(upgraded).control.has_trigrams()
    assert await names(upgraded, query) == expected
    await upgraded.close()
    await other.close()


async def test_rows_of_an_earlier_release_get_their_metrics(
    elasticsearch_place: ElasticsearchPlace, of_version: Callable[[int], None]
) -> None:
    of_version(4)
    store = await open_at(elasticsearch_place)
    await load_history(store, "hinge", "linux", [PASSED, FAILED, FAILED, FAILED], duration=0.5)
    await load_history(store, "hinge", "mac", [PASSED, FAILED, PASSED, FAILED, PASSED])
    await store.refresh_tests(NOON)
    query = TestQuery(WIDGETS, ("*",), TestSort.HEALTH_STATUS, with_metrics=True)
    before = await store.search_tests(query, Anchor(), 9)
    prefix = elasticsearch_place.prefix
    await ask(store, "POST", f"/{prefix}-*/_refresh")
    for index, change in (("identities", without_metrics), ("tests", with_old_rollups)):
        found = await ask(store, "POST", f"/{prefix}-{index}/_search", {"size": 9})
        for hit in found["hits"]["hits"]:
            target = f"/{hit['_index']}/_doc/{hit['_id']}?routing={hit['_routing']}&refresh=true"
            await ask(store, "PUT", target, change(hit["_source"]))
    # Another process of the earlier release may still write such rows.
    (row, *_) = (await store.search_tests(query, Anchor(), 9)).rows
    assert row.metrics == TestMetrics(HealthStatus.UNKNOWN, row.key.executions_count)
    await store.close()
    of_version(LAYOUT_VERSION)
    upgraded = await open_at(elasticsearch_place)
    assert (await upgraded.get_status(NOON)).stale_tests == 0
    assert await upgraded.search_tests(query, Anchor(), 9) == before
    assert [row.metrics and row.metrics.health_status for row in before.rows] == [
        HealthStatus.BROKEN,
        HealthStatus.FLAKY,
    ]
    await upgraded.close()


def without_metrics(row: Mapping[str, Any]) -> Mapping[str, Any]:
    known = ("repository_id", "key", "test_id", "test_name", "pipeline_name", "job_name")
    return {name: row[name] for name in (*known, "executions_count")}


def with_old_rollups(test: Mapping[str, Any]) -> Mapping[str, Any]:
    rollups = [
        [*names, orjson.dumps([1, *orjson.loads(text)[1:-1]]).decode()]
        for *names, text in test["rollups"]
    ]
    counts = [[pipeline, job, row[0][0]] for pipeline, job, row in test["rows"]]
    kept = {name: value for name, value in test.items() if name != "rows"}
    return {**kept, "rollups": rollups, "counts": counts}
