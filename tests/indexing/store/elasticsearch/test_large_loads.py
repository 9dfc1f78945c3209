"""Loads of many executions look them and their tests up another way than small ones."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from indexing.models.changes import AnswerChanges
from indexing.models.executions import Conclusion, Execution, Run
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch.derived import refresh
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import ExecutionCount
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import cluster_of

PASSED = Conclusion.PASSED
# More than a load looks up by their ids in all slices, and several steps of a refresh.
MANY = 1_100
ALL_TESTS = TestQuery(WIDGETS, ("*",))


def make_many(run: Run, count: int = MANY) -> list[Execution]:
    return make_executions(run, [(f"t{number:04}", PASSED) for number in range(count)], NOON)


async def count_rows(store: ElasticsearchStore) -> tuple[int, int]:
    """Return the number of rows of the search, and the sum of their executions."""
    rows = (await store.search_tests(ALL_TESTS, Anchor(), 2 * MANY)).rows
    return len(rows), sum(row.key.executions_count for row in rows)


async def test_executions_stay_the_same_in_any_month(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    many = make_many(run)
    assert await store.write_results(WIDGETS, {run: many}) == ExecutionCount(MANY, 0)
    for days in (0, 45, -45):
        moved = [replace(each, finished_at=after(days=days)) for each in many]
        assert await store.write_results(WIDGETS, {run: moved}) == ExecutionCount(0, MANY)
    moved[::2] = many[::2]
    assert await store.write_results(WIDGETS, {run: moved}) == ExecutionCount(0, MANY)
    await store.refresh_tests(NOON)
    assert await count_rows(store) == (MANY, MANY)


async def test_only_what_is_not_stored_is_written(store: ElasticsearchStore) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    many = make_many(run)
    first = ExecutionCount(MANY - 10, 0)
    assert await store.write_results(WIDGETS, {run: many[10:]}) == first
    assert await store.write_results(WIDGETS, {run: many}) == ExecutionCount(10, MANY - 10)
    await store.refresh_tests(NOON)
    assert await count_rows(store) == (MANY, MANY)


@pytest.mark.parametrize("days", [0, 45])
async def test_what_retention_hid_can_be_loaded_again(store: ElasticsearchStore, days: int) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    many = make_many(run)
    await store.write_results(WIDGETS, {run: many})
    await store.prune(after(hours=1), NOON)
    assert await count_rows(store) == (0, 0)
    again = [replace(each, finished_at=after(days=days)) for each in many]
    assert await store.write_results(WIDGETS, {run: again}) == ExecutionCount(MANY, 0)
    assert await store.write_results(WIDGETS, {run: again}) == ExecutionCount(0, MANY)
    await store.refresh_tests(NOON)
    assert await count_rows(store) == (MANY, MANY)


async def test_loads_at_once_register_each_test_once(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    runs = [make_run(str(number)) for number in range(2)]
    await asyncio.gather(
        *(
            each.write_results(WIDGETS, {run: make_many(run)})
            for each, run in zip((store, other), runs, strict=True)
        )
    )
    await asyncio.gather(*(each.refresh_tests(NOON) for each in (store, other)))
    assert await count_rows(store) == (MANY, 2 * MANY)


async def test_changes_are_reported_once_searches_see_them(
    store: ElasticsearchStore, elasticsearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "_TESTS_SHOWN_AT_ONCE", MANY // 2)
    await store.ensure_repository(WIDGETS)
    run = make_run()
    await store.write_results(WIDGETS, {run: make_many(run)})
    index = cluster_of(store).layout.identities
    # The callback cannot await.
    node = HTTPConnection(urlsplit(elasticsearch_url).netloc)
    reported, seen = 0, list[int]()

    def look(changes: AnswerChanges) -> None:
        nonlocal reported
        reported += len(changes.tests)
        node.request("GET", f"/{index}/_count")
        seen.append(json.loads(node.getresponse().read())["count"] - reported)

    await store.refresh_tests(NOON, repository=WIDGETS, changed=look)
    node.close()
    assert reported == MANY
    assert min(seen) >= 0


async def test_no_known_test_is_created_again(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run("1")
    await store.write_results(WIDGETS, {run: make_many(run, count=MANY - 1)})
    connection, tests = cluster_of(other).connection, cluster_of(other).layout.tests
    request, created = connection.request, 0

    async def count(method: str, target: str, body: Any = None, **options: Any) -> Any:
        nonlocal created
        if target.startswith("/_bulk"):
            created += body.count(b'{"create":{"_index":"%s"' % tests.encode())
        return await request(method, target, body, **options)

    monkeypatch.setattr(connection, "request", count)
    run = make_run("2")
    await other.write_results(WIDGETS, {run: make_many(run)})
    assert created == 1


async def test_a_test_that_is_forgotten_and_loaded_again_is_there(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run("1")
    await store.write_results(WIDGETS, {run: make_many(run)})
    await store.refresh_tests(NOON)
    await other.forget_test(WIDGETS, "t0000", NOON)
    run = make_run("2")
    await store.write_results(WIDGETS, {run: make_many(run)})
    await store.refresh_tests(NOON)
    assert await count_rows(store) == (MANY, 2 * MANY - 1)
