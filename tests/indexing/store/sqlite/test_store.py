"""Guarantees of the embedded store beyond the contract: its plans, its file, its processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexing import globs
from indexing.errors import StoreError, StoreUnavailableError
from indexing.fairness import current_tenant
from indexing.identifiers import derive_test_id
from indexing.models.paging import Anchor
from indexing.models.tests import TestQuery, TestSort
from indexing.names import RepositoryName
from indexing.store import open_store
from indexing.store.interface import Store
from indexing.store.sqlite.connections import (
    INLINE_STEPS,
    SLOW_READERS,
    SLOW_READS_AT_ONCE,
    SLOW_READS_PER_TENANT,
    Connections,
)
from indexing.store.sqlite.search.plan import upper_bound
from indexing.store.sqlite.search.strategy import search_candidates, search_in_order
from indexing.store.sqlite.slow_read import ReadInterruptedError
from tests.builders import NOON, WIDGETS, load_names
from tests.new_stores import open_new_store
from tests.waiting import until

CHARACTERS = "ab[]\\{}^%_\"'é\u0301🧪\ufffd\ufffe\uffff"
NAMES = st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=12)
NAMES |= NAMES.map(lambda name: name * 8)
PATTERNS = st.text(st.sampled_from(CHARACTERS + "**??"), min_size=1, max_size=12)
PATTERNS |= PATTERNS.map(lambda pattern: pattern * 8)

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

_numbers = itertools.count()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_new_store(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def connections(store: Store, tmp_path: Path) -> AsyncIterator[Connections]:
    """Other connections to the file of the store."""
    opened = Connections.open(tmp_path / "mergewatch.db")
    yield opened
    await opened.close()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    stored=st.lists(NAMES, max_size=20, unique=True),
    patterns=st.lists(PATTERNS | NAMES, min_size=1, max_size=3),
    sort=st.sampled_from(TestSort),
)
async def test_both_plans_give_the_rows_of_the_oracle(
    store: Store,
    connections: Connections,
    stored: list[str],
    patterns: list[str],
    sort: TestSort,
) -> None:
    repository = RepositoryName("globs", f"r{next(_numbers)}")
    await load_names(store, stored, repository=repository)
    query = TestQuery(repository, tuple(patterns), sort, descending=False)
    expected = sorted(n for n in stored if any(globs.matches(p, n) for p in patterns))
    for plan in (search_in_order, search_candidates):
        page = await connections.read_slowly(partial(plan, query=query, anchor=Anchor(), limit=100))
        assert [row.key.test_name for row in page.rows] == expected


@given(st.text(min_size=1), st.text())
def test_an_upper_bound_is_above_all_that_begin_so(prefix: str, rest: str) -> None:
    bound = upper_bound(prefix)
    assert bound is None or prefix + rest < bound


@pytest.mark.parametrize(
    ("prefix", "bound"),
    [("a", "b"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ue000")],
)
def test_the_upper_bound_is_the_next_text_there_is(prefix: str, bound: str | None) -> None:
    assert upper_bound(prefix) == bound


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not time out a thread that a busy machine delays."""
    monkeypatch.setattr("indexing.store.sqlite.connections.SLOW_READ_SECONDS", 600.0)


@pytest.mark.usefixtures("patience")
async def test_a_long_read_leaves_the_event_loop_free(tmp_path: Path) -> None:
    connections = Connections.open(tmp_path / "mergewatch.db")
    long = ENDLESS.replace("FROM n)", "FROM n WHERE i < 1000000)")
    reading = asyncio.create_task(connections.read(lambda c: c.execute(long).fetchone()[0]))
    quick = 0
    while not reading.done():
        assert await connections.read(lambda c: c.execute("SELECT 1").fetchone()[0]) == 1
        quick += 1
        await asyncio.sleep(0)
    assert await reading == 1_000_000
    assert quick > 10
    await connections.close()


# One name, and patterns whose mismatch costs pattern length times name length: seconds for all
# names together, so that the delays of a busy machine do not matter.
LONG_NAME = "a" * 7_990
HEAVY_PATTERNS = ["*" + "a" * 2_000 + "b*", "*" + "a?" * 1_000 + "b*"]


@pytest.mark.slow
@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("pattern", HEAVY_PATTERNS)
async def test_a_heavy_pattern_holds_the_event_loop_no_longer_than_a_name(
    tmp_path: Path, pattern: str
) -> None:
    store = await open_store(tmp_path)
    names = [f"{LONG_NAME}{number}" for number in range(40)]
    await load_names(store, names)
    # The time without yielding to others, on the same machine at the same time.
    with contextlib.closing(sqlite3.connect(":memory:")) as plain:
        plain.execute("CREATE TABLE names (name TEXT)")
        plain.executemany("INSERT INTO names VALUES (?)", [(name,) for name in names])
        began = time.monotonic()
        assert plain.execute("SELECT * FROM names WHERE name GLOB ?", (pattern,)).fetchall() == []
        at_once = time.monotonic() - began
    searching = asyncio.create_task(
        store.search_tests(TestQuery(WIDGETS, (pattern,)), Anchor(), 10)
    )
    longest, before = 0.0, time.monotonic()
    while not searching.done():
        await asyncio.sleep(0)
        now = time.monotonic()
        longest, before = max(longest, now - before), now
    assert (await searching).rows == ()
    assert longest < at_once / 2
    await store.close()


async def test_a_read_that_takes_too_long_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexing.store.sqlite.connections.SLOW_READ_SECONDS", 0.05)
    connections = Connections.open(tmp_path / "mergewatch.db")
    with pytest.raises(StoreUnavailableError, match="too long"):
        await connections.read(lambda c: c.execute(ENDLESS).fetchone())
    await connections.close()


async def test_a_read_of_many_short_statements_is_interrupted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexing.store.sqlite.connections.SLOW_READ_SECONDS", 0.05)
    connections = Connections.open(tmp_path / "mergewatch.db")
    loop_thread = threading.get_ident()
    on_the_loop = 0

    def read(connection: sqlite3.Connection) -> None:
        nonlocal on_the_loop
        for _ in range(2_000_000):
            on_the_loop += threading.get_ident() == loop_thread
            connection.execute("SELECT 1").fetchone()

    with pytest.raises(StoreUnavailableError, match="too long"):
        await connections.read(read)
    assert on_the_loop <= INLINE_STEPS / 100
    await connections.close()


async def test_slow_reads_of_one_keep_another_waiting_for_a_few_only(tmp_path: Path) -> None:
    connections = Connections.open(tmp_path / "mergewatch.db")
    begun: list[str] = []
    ends = threading.Semaphore(0)

    async def read(tenant: str) -> None:
        current_tenant.set(tenant)

        def work(_: sqlite3.Connection) -> None:
            begun.append(tenant)
            ends.acquire()

        await connections.read_slowly(work)

    def have_begun(number: int) -> bool:
        return len(begun) == number

    flood = [asyncio.create_task(read("flood")) for _ in range(30)]
    await asyncio.sleep(0)
    other = asyncio.create_task(read("other"))
    try:
        # One read ends at a time. Otherwise a thread that the system suspends may begin its read
        # after any number of others that were taken up later.
        for number in range(SLOW_READERS, SLOW_READS_AT_ONCE + 2 * SLOW_READERS):
            await until(partial(have_begun, number))
            ends.release()
    finally:
        ends.release(len(flood) + 1)
    await asyncio.gather(other, *flood)
    # It waits for no read that had not been handed to the threads yet.
    assert begun.index("other") <= SLOW_READS_PER_TENANT < SLOW_READS_AT_ONCE
    await connections.close()


async def test_closing_does_not_wait_for_slow_reads(tmp_path: Path) -> None:
    connections = Connections.open(tmp_path / "mergewatch.db")
    # More than the queue for threads holds.
    readings = [
        asyncio.create_task(connections.read(lambda c: c.execute(ENDLESS).fetchone()))
        for _ in range(SLOW_READS_AT_ONCE + 3)
    ]
    await asyncio.sleep(0)
    await connections.close()
    outcomes = await asyncio.gather(*readings, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {ReadInterruptedError, asyncio.CancelledError}


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mergewatch.db").write_bytes(b"not a database, just some text " * 100)
    with pytest.raises(StoreError, match="not a database"):
        await open_store(tmp_path)


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"needs the folder {tmp_path}/file/data, but"):
        await open_store(tmp_path / "file" / "data")


async def test_many_may_open_a_new_store_at_once_and_agree(tmp_path: Path) -> None:
    stores = await asyncio.gather(
        *(asyncio.to_thread(lambda: asyncio.run(_identify(tmp_path))) for _ in range(8))
    )
    assert len(set(stores)) == 1


async def _identify(path: Path) -> tuple[str, bytes]:
    store = await open_store(path)
    identity = await store.get_identity()
    await store.close()
    return identity.store_id, identity.cursor_secret


async def test_the_next_writer_completes_a_killed_refresh(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await load_names(store, ["a"])
    await store.close()
    with sqlite3.connect(tmp_path / "mergewatch.db") as connection:
        connection.execute(
            "INSERT INTO stale_tests (test, repository_id) SELECT id, repository_id FROM tests"
        )
    connection.close()
    store = await open_store(tmp_path)
    assert (await store.get_status(NOON)).stale_tests == 1
    assert await store.refresh_tests(NOON) == 1
    assert (await store.get_status(NOON)).stale_tests == 0
    await store.close()


async def test_a_file_that_is_cut_short_while_it_is_read_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "mergewatch.db"
    store = await open_store(tmp_path)
    await load_names(store, [f"hinge {number}" for number in range(500)])
    await store.close()
    store = await open_store(tmp_path)
    os.truncate(path, 4_096)
    with pytest.raises(StoreUnavailableError, match="malformed"):
        await store.get_test(WIDGETS, derive_test_id(WIDGETS, "hinge 1"))
    await store.close()
