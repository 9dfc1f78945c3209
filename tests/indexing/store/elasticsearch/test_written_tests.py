"""A process need not read the tests that it has just written, whoever else writes them."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from indexing import yielding
from indexing.models.executions import Conclusion
from indexing.models.notifications import Webhook, WebhookFormat
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.client.documents import Version
from indexing.store.elasticsearch.indices import written_tests
from indexing.store.elasticsearch.indices.written_tests import WrittenTests
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

pytestmark = pytest.mark.fresh_indices

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
VERSION = Version(1, 1)


async def load(store: ElasticsearchStore, number: int, conclusion: Conclusion = PASSED) -> None:
    run = make_run(str(number), commit=f"c{number}")
    executions = make_executions(run, [("t", conclusion), ("u", PASSED)], after(minutes=number))
    await store.ensure_repository(WIDGETS)
    await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON, repository=WIDGETS)


async def counts(store: ElasticsearchStore) -> dict[str, tuple[int, int]]:
    """Return how many executions of each test there are, and how many failed."""
    query = TestQuery(WIDGETS, ("*",), with_metrics=True)
    return {
        row.key.test_name: (row.metrics.executions_count, row.metrics.failed_executions_count)
        for row in (await store.search_tests(query, Anchor(), 10)).rows
        if row.metrics is not None
    }


async def documents(store: ElasticsearchStore) -> dict[str, Any]:
    index = cluster_of(store).layout.tests
    await ask(store, "POST", f"/{index}/_refresh")
    found = await ask(store, "POST", f"/{index}/_search", {"size": 10})
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


def count_reads(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the ids of the tests that the store reads from now on."""
    connection, tests = cluster_of(store).connection, cluster_of(store).layout.tests
    get_many, read = connection.get_many, list[str]()

    async def counting(places: Any, *args: Any, **options: Any) -> Any:
        read.extend(place.id for place in places if place.index == tests)
        return await get_many(places, *args, **options)

    monkeypatch.setattr(connection, "get_many", counting)
    return read


async def test_no_load_reads_tests_that_only_this_process_writes(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = count_reads(store, monkeypatch)
    await load(store, 1)
    await load(store, 2, FAILED)
    await load(store, 3)
    assert read == []
    assert await counts(store) == {"t": (3, 1), "u": (3, 0)}
    merged = await documents(store)
    await store.rebuild(NOON)
    assert await documents(store) == merged


async def test_two_processes_that_take_turns_lose_nothing(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 7):
        await load(store if number % 2 else other, number, FAILED if number == 4 else PASSED)
    assert await counts(store) == {"t": (6, 1), "u": (6, 0)}
    merged = await documents(store)
    # Both know by now that they are not alone, so they read the tests, once for each load.
    read = count_reads(store, monkeypatch)
    await load(store, 7)
    assert len(read) == 2
    await other.rebuild(NOON)
    await load(store, 4, FAILED)
    assert await counts(store) == {"t": (7, 1), "u": (7, 0)}
    assert (await documents(store)).keys() == merged.keys()


async def test_a_repeated_load_sees_what_another_process_has_written(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await load(store, 1)
    await load(other, 2, FAILED)
    before = await documents(store)
    # There is nothing to write by what this process remembers.
    await load(store, 1)
    assert await documents(store) == before
    assert await counts(store) == {"t": (2, 1), "u": (2, 0)}


async def test_a_rebuild_remembers_nothing(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would compute each test twice if another process had written it."""
    await load(store, 1)
    await load(other, 2)
    read = count_reads(store, monkeypatch)
    assert await store.rebuild(NOON) == 2
    assert len(read) == 2


async def test_a_test_that_another_process_has_forgotten_begins_anew(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await load(store, 1)
    await other.forget_test(WIDGETS, "t", NOON)
    await load(store, 2)
    assert await counts(store) == {"t": (1, 0), "u": (2, 0)}


async def test_the_oldest_documents_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_tests, "_BYTES", 100)
    monkeypatch.setattr(written_tests, "_BYTES_OF_ONE", 60)
    known = WrittenTests()
    for test in ("a", "b", "c"):
        known.keep("r", test, b'{"text":"%s"}' % (b"x" * 30), VERSION)
    known.keep("r", "large", b'{"text":"%s"}' % (b"x" * 60), VERSION)
    assert (await known.find("r", ["a", "b", "c", "large"])).keys() == {"b", "c"}
    known.forget("c")
    for test in ("d", "e"):
        known.keep("r", test, b'{"text":"%s"}' % (b"x" * 30), VERSION)
    assert (await known.find("r", ["b", "c", "d", "e"])).keys() == {"d", "e"}


async def test_documents_are_not_remembered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    known = WrittenTests()
    known.keep("r", "a", b"{}", VERSION)
    assert (await known.find("r", ["a"]))["a"].version == VERSION
    now = 601.0
    assert await known.find("r", ["a"]) == {}
    known.note_other_writer("r")
    known.keep("r", "a", b"{}", VERSION)
    known.keep("s", "b", b"{}", VERSION)
    assert (await known.find("r", ["a"]), list(await known.find("s", ["b"]))) == ({}, ["b"])
    now = 1202.0
    known.keep("r", "a", b"{}", VERSION)
    assert list(await known.find("r", ["a"])) == ["a"]


async def test_a_notification_does_not_look_like_another_writer(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://hooks.example/a"
    await store.add_webhook(
        Webhook(uuid.uuid4(), WIDGETS, WebhookFormat.STANDARD, url, b"s" * 24, NOON)
    )
    await load(store, 1)
    for number in (2, 3, 4):
        await load(store, number, FAILED)
    # The notification that the test is broken has rewritten its document.
    read = count_reads(store, monkeypatch)
    await load(store, 5, FAILED)
    assert len(read) <= 1
    read.clear()
    await load(store, 6, FAILED)
    assert read == []


async def test_other_tasks_have_turns_while_documents_are_remembered_and_found(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each document counts as long work.
    monkeypatch.setattr(yielding, "WORK_SECONDS", 0.0)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    keep, kept_at = WrittenTests.keep, list[int]()

    def noting(*args: Any) -> None:
        kept_at.append(turns)
        keep(*args)

    monkeypatch.setattr(WrittenTests, "keep", noting)
    other = asyncio.create_task(take_turns())
    await load(store, 1)
    assert len(set(kept_at)) == len(kept_at) >= 2
    known = WrittenTests()
    tests = [f"test {number}" for number in range(20)]
    for test in tests:
        known.keep("r", test, b"{}", VERSION)
    before = turns
    assert len(await known.find("r", tests)) == len(tests)
    assert turns - before >= len(tests)
    other.cancel()
