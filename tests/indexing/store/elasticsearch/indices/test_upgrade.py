"""Layouts of other versions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from indexing.errors import StoreError, StoreUnavailableError, StoreVersionError
from indexing.models.events import EventQuery, Outcome
from indexing.models.executions import Conclusion
from indexing.models.listed_repositories import RepositoryQuery
from indexing.models.notifications import Webhook, WebhookFormat
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest, QuarantineSource
from indexing.models.tests import HealthStatus, TestMetrics, TestQuery, TestSort
from indexing.names import RepositoryName, parse_repository
from indexing.store import ElasticsearchPlace, StoreVersions, find_versions
from indexing.store.elasticsearch import maintenance
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices import (
    control,
    generations,
    layout,
    setup,
    templates,
    upgrade,
    upgrade_lease,
)
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION, TEMPLATES_VERSION
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, load_names, make_event
from tests.contracts.test_health_reports import load_history
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, event_ids, names, open_at
from tests.whole_state import read_all

pytestmark = pytest.mark.fresh_indices

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
NEXT = LAYOUT_VERSION + 1
EVERY_EVENT = EventQuery(WIDGETS, NOON, after(days=1))
# An existing field can never be changed to this.
STORED = {"type": "keyword", "store": True}


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


@pytest.fixture
def new_field(monkeypatch: pytest.MonkeyPatch, of_version: Callable[[int], None]) -> None:
    """The next version, which adds a field to every index."""
    of_version(NEXT)
    for fields in (*layout._FIXED.values(), *layout._GROWING.values()):
        monkeypatch.setitem(fields, "colour", {"type": "keyword"})


async def fill(store: ElasticsearchStore) -> None:
    await load_names(store, [f"t{number}" for number in range(30)])
    await store.write_events([make_event(number) for number in range(5)])
    request = QuarantineRequest("t1", "x", None, QuarantineSource.MANUAL)
    await store.add_quarantine(WIDGETS, request, NOON)


async def mapping_of(store: ElasticsearchStore, index: str) -> list[Mapping[str, Any]]:
    found = await ask(store, "GET", f"/{index}/_mapping")
    return [each["mappings"]["properties"] for each in found.values()]


async def test_new_fields_are_added_to_every_index_and_to_later_ones(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace, request: Any
) -> None:
    await fill(store)
    before = await read_all(elasticsearch_place, [WIDGETS])
    request.getfixturevalue("new_field")
    assert await find_versions(elasticsearch_place) == StoreVersions(LAYOUT_VERSION, NEXT)
    upgraded = await open_at(elasticsearch_place)
    assert (await upgraded.get_status()).version == NEXT
    await upgraded.write_events([make_event(9, NOON.replace(month=1))])
    for fields in await mapping_of(upgraded, f"{elasticsearch_place.prefix}-*"):
        assert fields["colour"] == {"type": "keyword"}
    assert await event_ids(upgraded) == [4, 3, 2, 1, 0, 9]
    await upgraded.close()
    after_it = await read_all(elasticsearch_place, [WIDGETS])
    assert [line for line in after_it if line in before] == [
        line for line in before if not line.startswith("events ")
    ]


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
    for index, names_of_fields in (("identities", ["trigrams"]), ("control", ["trigrams"])):
        found = await ask(store, "POST", f"/{prefix}-{index}/_search", {"size": 99})
        for hit in found["hits"]["hits"]:
            source = {k: v for k, v in hit["_source"].items() if k not in names_of_fields}
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
    assert (await upgraded.get_status()).stale_tests == 0
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


async def test_of_processes_that_start_together_one_upgrades(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    new_field: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del new_field
    monkeypatch.setattr(upgrade_lease, "LOOK_SECONDS", 0.01)
    opened = await asyncio.gather(*(open_at(elasticsearch_place) for _ in range(5)))
    for each in opened:
        assert (await each.get_status()).version == NEXT
        await each.close()
    told = [record.getMessage() for record in caplog.records]
    assert sum("upgraded the indices" in line for line in told) == 1
    assert any("waiting for another process" in line for line in told)


async def test_the_lease_of_a_process_that_died_is_taken_over(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    new_field: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del new_field
    monkeypatch.setattr(upgrade_lease, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(upgrade_lease, "EXPIRES_SECONDS", 0.2)
    await ask(
        store,
        "PUT",
        f"/{elasticsearch_place.prefix}-control/_doc/upgrade",
        {"kind": "upgrade", "owner": "gone"},
    )
    upgraded = await open_at(elasticsearch_place)
    assert (await upgraded.get_status()).version == NEXT
    await upgraded.close()


async def test_a_process_of_an_older_release_stops_answering_after_an_upgrade(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    of_version: Callable[[int], None],
) -> None:
    of_version(NEXT)
    await (await open_at(elasticsearch_place)).close()
    of_version(LAYOUT_VERSION)
    with pytest.raises(StoreVersionError, match=f"of version {NEXT}.*run the release"):
        await store.ping()
    with pytest.raises(StoreVersionError, match=f"of version {NEXT}.*run the release"):
        await open_at(elasticsearch_place)
    assert await find_versions(elasticsearch_place) == StoreVersions(NEXT, LAYOUT_VERSION)


def repaint(source: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**source, "colour": "red"}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, of_version: Callable[[int], None]) -> None:
    """The next version, where two indices have a field of another type."""
    of_version(NEXT)
    monkeypatch.setitem(upgrade.COPIES, NEXT, {"tests": repaint, "quarantines": repaint})
    monkeypatch.setitem(layout.TESTS_MAPPING, "test_id", STORED)
    monkeypatch.setitem(layout.QUARANTINES_MAPPING, "colour", {"type": "keyword"})
    monkeypatch.setattr(generations, "_ROWS_A_PAGE", 7)


async def test_what_cannot_be_added_is_copied_into_a_new_generation(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    request: pytest.FixtureRequest,
) -> None:
    await fill(store)
    before = await read_all(elasticsearch_place, [WIDGETS])
    request.getfixturevalue("copies")
    assert await read_all(elasticsearch_place, [WIDGETS]) == before
    upgraded = await open_at(elasticsearch_place)
    (fields,) = await mapping_of(upgraded, f"{elasticsearch_place.prefix}-tests")
    assert fields["test_id"] == STORED
    red = {"query": {"term": {"colour": "red"}}}
    found = await ask(upgraded, "POST", f"/{elasticsearch_place.prefix}-quarantines/_search", red)
    assert found["hits"]["total"]["value"] == 1
    # Search rows still follow the versions of their tests, and everything can be written.
    await load_names(upgraded, ["t1", "new"])
    assert await names(upgraded) == sorted([*(f"t{number}" for number in range(30)), "new"])
    await upgraded.rebuild(NOON)
    page = await upgraded.list_quarantines(QuarantineQuery(WIDGETS, NOON), Anchor(), None)
    assert await upgraded.remove_quarantine(WIDGETS, page.rows[0].key.id, NOON)
    await upgraded.close()


@pytest.mark.parametrize("killed_after", [0, 3, 5])
async def test_a_copy_that_is_interrupted_is_made_anew(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    killed_after: int,
) -> None:
    await fill(store)
    before = await read_all(elasticsearch_place, [WIDGETS])
    request.getfixturevalue("copies")
    send, sent = bulk.send, 0

    async def send_some(*arguments: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent > killed_after:
            raise Killed
        return await send(*arguments, **options)

    async def never(*_: object) -> None:
        """A killed process cleans nothing up."""

    with monkeypatch.context() as patched:
        patched.setattr(bulk, "send", send_some)
        patched.setattr(generations, "_unblock", never)
        patched.setattr(upgrade_lease.UpgradeLease, "release", never)
        with pytest.raises(Killed):
            await open_at(elasticsearch_place)
    monkeypatch.setattr(upgrade_lease, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(upgrade_lease, "EXPIRES_SECONDS", 0.1)
    # Reads work as before, in whatever state the upgrade stopped.
    assert sorted(await names(store)) == sorted(f"t{number}" for number in range(30))
    assert await read_all(elasticsearch_place, [WIDGETS]) == before
    upgraded = await open_at(elasticsearch_place)
    await upgraded.ensure_repository(RepositoryName("acme", "more"))
    await load_names(upgraded, ["new"])
    indices = await ask(upgraded, "GET", f"/{elasticsearch_place.prefix}-tests-v*/_alias")
    assert len(indices) == 1
    await upgraded.close()


class Killed(BaseException):
    """An exception that no code of the project handles."""


async def test_a_type_that_changed_without_a_copy_is_an_error_that_names_the_index(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    of_version: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_version(NEXT)
    monkeypatch.setitem(layout.TESTS_MAPPING, "test_id", STORED)
    with pytest.raises(StoreError, match=f"{elasticsearch_place.prefix}-tests"):
        await open_at(elasticsearch_place)


async def test_missing_indices_are_reported_as_such(
    elasticsearch_place: ElasticsearchPlace,
) -> None:
    assert await find_versions(elasticsearch_place) is None
    with pytest.raises(StoreUnavailableError):
        await find_versions(ElasticsearchPlace(("http://127.0.0.1:9",), "nowhere"))
