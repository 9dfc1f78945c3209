"""Reads of one iteration of the event loop share a snapshot, and nothing else.

A slow read has a snapshot of its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.sqlite.connections import INLINE_STEPS, Connections

NAME = "counter"
# It takes most of the budget of one read.
LONG = (
    "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT 1 FROM n",
    (INLINE_STEPS // 25,),
)
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
async def connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connections]:
    # A busy machine must not send a read to a thread.
    monkeypatch.setattr("indexing.store.sqlite.connections.INLINE_SECONDS", 60.0)
    opened = Connections.open(tmp_path / "mergewatch.db")
    yield opened
    await opened.close()


@pytest.fixture
def other(connections: Connections, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The connection of another process; it commits each statement."""
    opened = sqlite3.connect(
        tmp_path / "mergewatch.db", isolation_level=None, check_same_thread=False
    )
    set_count(opened, 0)
    yield opened
    opened.close()


def set_count(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (NAME, b"%d" % count))


def read_count(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (NAME,)).fetchone()
    return int(row[0])


async def test_reads_of_one_iteration_see_the_same(
    connections: Connections, other: sqlite3.Connection
) -> None:
    def read_and_let_commit(connection: sqlite3.Connection) -> int:
        found = read_count(connection)
        set_count(other, found + 1)
        return found

    first = [asyncio.create_task(connections.read(read_and_let_commit)) for _ in range(3)]
    assert await asyncio.gather(*first) == [0, 0, 0]
    assert await connections.read(read_count) == 1


async def test_all_statements_of_a_slow_read_see_the_same(
    connections: Connections, other: sqlite3.Connection
) -> None:
    def read_and_let_commit(connection: sqlite3.Connection) -> tuple[int, int]:
        found = read_count(connection)
        set_count(other, found + 1)
        return found, read_count(connection)

    assert await connections.read_slowly(read_and_let_commit) == (0, 0)
    assert await connections.read_slowly(read_count) == 1


async def test_a_read_sees_what_was_acknowledged_before_it(
    connections: Connections, other: sqlite3.Connection
) -> None:
    acknowledged = 0
    loop = asyncio.get_running_loop()

    async def read() -> None:
        while acknowledged < 300:
            known = acknowledged
            assert await connections.read(read_count) >= known
            # One iteration to three: some begin with a read, and others with a commit.
            for _ in range(known % 3 + 1):
                await asyncio.sleep(0)

    def learn(count: int) -> None:
        nonlocal acknowledged
        acknowledged = count

    def commit() -> None:
        for count in range(1, 301):
            set_count(other, count)
            loop.call_soon_threadsafe(learn, count)

    await asyncio.gather(asyncio.to_thread(commit), *(read() for _ in range(5)))


async def test_a_read_sees_an_own_write_that_has_ended(connections: Connections) -> None:
    async def write_and_read(number: int) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO meta VALUES (?, x'00')", (f"own {number}",))

        await connections.write(write)
        query = "SELECT count(*) FROM meta WHERE name = ?", (f"own {number}",)
        assert await connections.read(lambda c: c.execute(*query).fetchone()) == (1,)

    await asyncio.gather(*(write_and_read(number) for number in range(30)))


async def test_a_read_is_not_older_than_the_revision_before_it(
    connections: Connections, other: sqlite3.Connection
) -> None:
    before = connections.revision()
    assert await connections.read(read_count) == 0
    # All of this in one callback of the event loop.
    set_count(other, 1)
    assert connections.revision() != before
    assert await connections.read(read_count) == 1


async def test_each_read_of_an_iteration_has_its_own_budget(connections: Connections) -> None:
    threads: set[int] = set()

    def read(connection: sqlite3.Connection) -> object:
        threads.add(threading.get_ident())
        return connection.execute(*LONG).fetchall()

    assert len(await asyncio.gather(*(connections.read(read) for _ in range(8)))) == 8
    assert threads == {threading.get_ident()}


async def test_a_read_that_is_interrupted_or_fails_leaves_the_others(
    connections: Connections, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexing.store.sqlite.connections.SLOW_READ_SECONDS", 0.05)
    assert other.in_transaction is False
    results = await asyncio.gather(
        connections.read(read_count),
        connections.read(lambda c: c.execute(ENDLESS).fetchone()),
        connections.read(lambda c: c.execute("SELECT * FROM missing").fetchone()),
        connections.read(read_count),
        return_exceptions=True,
    )
    assert (results[0], results[3]) == (0, 0)
    assert isinstance(results[1], StoreUnavailableError)
    assert isinstance(results[2], StoreError)
    assert "missing" in str(results[2])


async def test_a_cancelled_read_leaves_the_others(
    connections: Connections, other: sqlite3.Connection
) -> None:
    assert other.in_transaction is False
    reads = [asyncio.create_task(connections.read(read_count)) for _ in range(3)]
    reads[1].cancel()
    results = await asyncio.gather(*reads, return_exceptions=True)
    assert (results[0], results[2]) == (0, 0)
    assert isinstance(results[1], asyncio.CancelledError)


async def test_a_snapshot_does_not_outlast_its_iteration(
    connections: Connections, other: sqlite3.Connection
) -> None:
    set_count(other, 1)
    assert await connections.read(read_count) == 1
    await asyncio.sleep(0)
    # While anybody reads the log, it cannot be truncated.
    is_busy, *_ = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not is_busy


async def test_connections_are_closed_in_the_iteration_of_a_read(tmp_path: Path) -> None:
    failed: list[object] = []
    # What a callback raises fails no test.
    asyncio.get_running_loop().set_exception_handler(lambda _, about: failed.append(about))
    opened = Connections.open(tmp_path / "another.db")
    await opened.read(lambda c: c.execute("SELECT * FROM meta").fetchall())
    await opened.close()
    await asyncio.sleep(0)
    assert not failed
