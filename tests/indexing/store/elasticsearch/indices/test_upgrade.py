"""Layouts of other versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from indexing.errors import StoreError, StoreUnavailableError, StoreVersionError
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest, QuarantineSource
from indexing.names import RepositoryName
from indexing.store import ElasticsearchPlace, StoreVersions, find_versions
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.indices import (
    generations,
    layout,
    upgrade,
    upgrade_lease,
)
from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION
from indexing.store.elasticsearch.indices.upgrade_lease import UpgradeLease, hold_lease
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, load_names, make_event
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, event_ids, names, open_at
from tests.whole_state import read_all

pytestmark = pytest.mark.fresh_indices

NEXT = LAYOUT_VERSION + 1
# An existing field can never be changed to this.
STORED = {"type": "keyword", "store": True}


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
    assert (await upgraded.get_status(NOON)).version == NEXT
    await upgraded.write_events([make_event(9, NOON.replace(month=1))])
    for fields in await mapping_of(upgraded, f"{elasticsearch_place.prefix}-*"):
        assert fields["colour"] == {"type": "keyword"}
    assert await event_ids(upgraded) == [4, 3, 2, 1, 0, 9]
    await upgraded.close()
    after_it = await read_all(elasticsearch_place, [WIDGETS])
    assert [line for line in after_it if line in before] == [
        line for line in before if not line.startswith("events ")
    ]


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
        assert (await each.get_status(NOON)).version == NEXT
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
    assert (await upgraded.get_status(NOON)).version == NEXT
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


async def test_a_lease_that_is_not_needed_any_more_is_released(store: ElasticsearchStore) -> None:
    answers = iter([False, True])

    async def is_done() -> bool:
        # Another process ends the upgrade just before this one takes the lease.
        return next(answers)

    cluster = cluster_of(store)
    async with hold_lease(cluster.connection, cluster.layout, is_done) as lease:
        assert lease is None
    assert await UpgradeLease(cluster.connection, cluster.layout).find() is None


async def test_a_lease_is_released_although_it_is_being_renewed(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_lease, "RENEWED_SECONDS", 0.0)
    cluster = cluster_of(store)
    request, renewed, may_end = cluster.connection.request, asyncio.Event(), asyncio.Event()

    async def answer_late(method: str, target: str, *others: Any, **options: Any) -> Any:
        answer = await request(method, target, *others, **options)
        if method == "PUT" and "if_seq_no" in target:
            renewed.set()
            await may_end.wait()
        return answer

    monkeypatch.setattr(cluster.connection, "request", answer_late)

    async def is_done() -> bool:
        return False

    async def hold() -> None:
        async with hold_lease(cluster.connection, cluster.layout, is_done):
            await renewed.wait()

    holding = asyncio.create_task(hold())
    await renewed.wait()
    await asyncio.sleep(0)
    may_end.set()
    await holding
    assert await UpgradeLease(cluster.connection, cluster.layout).find() is None
