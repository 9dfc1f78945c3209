"""Rows of the search are kept between searches, but each search shows its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.tests import TestIdentity as Row
from indexing.models.tests import TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store.interface import Store
from tests.builders import GADGETS, NOON, WIDGETS, after, load_names, make_executions, make_run
from tests.new_stores import open_new_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_new_store(tmp_path)
    yield opened
    await opened.close()


async def search(
    store: Store, repository: RepositoryName = WIDGETS, sort: TestSort = TestSort.EXECUTIONS_COUNT
) -> Row:
    """Return the only row."""
    query = TestQuery(repository, ("*",), sort)
    (row,) = (await store.search_tests(query, Anchor(), 10)).rows
    return row


async def test_a_count_and_a_ratio_that_are_equal_stay_apart(store: Store) -> None:
    run = make_run()
    await store.ensure_repository(WIDGETS)
    failed = make_executions(run, [("a", Conclusion.FAILED)])
    await store.write_results(WIDGETS, {run: failed})
    await store.refresh_tests(NOON)
    count, ratio = TestSort.FAILED_EXECUTIONS_COUNT, TestSort.FAILURE_RATIO
    for sort, kind in ((count, int), (ratio, float), (count, int)):
        value = (await search(store, sort=sort)).key.value
        assert value == 1
        assert type(value) is kind
    assert (await search(store)).key.value is None


async def test_a_row_that_has_changed_is_shown_as_it_is(store: Store) -> None:
    await load_names(store, ["a"])
    assert (await search(store)).key.executions_count == 1
    await load_names(store, ["a"], make_run("2"), at=after(hours=1))
    assert (await search(store)).key.executions_count == 2


async def test_equal_names_in_two_repositories_have_ids_of_their_own(store: Store) -> None:
    for repository in (WIDGETS, GADGETS):
        await load_names(store, ["a"], repository=repository)
    for repository in (WIDGETS, GADGETS, WIDGETS):
        row = await search(store, repository)
        assert row.test_id == derive_test_id(repository, "a")
