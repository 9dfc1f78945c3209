"""A process tells its own commits from those of others, also while it writes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from indexing.store.sqlite import own_writes
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.own_writes import OwnWrites
from indexing.store.sqlite.write_turns import WriteTurns
from tests.service.processes import TIMEOUT


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Connections, Connections]]:
    one, other = (Connections.open(tmp_path / "store.sqlite") for _ in range(2))
    # The writing connections are opened by the first write.
    await write(one)
    await write(other)
    yield one, other
    for each in (one, other):
        await each.close()


async def write(connections: Connections) -> None:
    await connections.write(
        lambda c: c.execute("INSERT INTO meta VALUES (hex(randomblob(8)), x'00')").fetchall()
    )


async def test_own_commits_leave_the_revision(both: tuple[Connections, Connections]) -> None:
    one, _ = both
    before = one.revision()
    for _ in range(3):
        await write(one)
        assert one.revision() == before


@pytest.mark.parametrize("own_before", [0, 1])
@pytest.mark.parametrize("own_after", [0, 1])
async def test_a_commit_of_another_shows_between_own_ones(
    both: tuple[Connections, Connections], own_before: int, own_after: int
) -> None:
    one, other = both
    for _ in range(5):
        before = one.revision()
        for _ in range(own_before):
            await write(one)
        await write(other)
        for _ in range(own_after):
            await write(one)
        after = one.revision()
        assert after != before
        assert one.revision() == after


async def test_a_commit_of_another_shows_during_a_transaction_and_the_own_one_does_not(
    both: tuple[Connections, Connections],
) -> None:
    one, other = both
    before = one.revision()
    await write(other)
    has_begun, may_end = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        has_begun.set()
        may_end.wait()

    writing = asyncio.create_task(one.write(hold))
    await asyncio.to_thread(has_begun.wait)
    during = one.revision()
    assert during != before
    may_end.set()
    await writing
    assert one.revision() == during


async def test_a_write_whose_caller_is_gone_counts_as_one_of_others(
    both: tuple[Connections, Connections],
) -> None:
    one, _ = both
    has_begun, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def hold(_: object) -> None:
        has_begun.set()
        may_end.wait()

    writing = asyncio.create_task(one.write(hold))
    await asyncio.to_thread(has_begun.wait)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    before = one.revision()
    may_end.set()
    await one.write(lambda _: has_ended.set())
    assert has_ended.is_set()
    assert one.revision() != before


class Interrupted(sqlite3.Connection):
    """A writing connection; `after` is called right after each statement with that text."""

    after: tuple[str, Callable[[], object]] = ("", lambda: None)

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        done = super().execute(sql, parameters)  # type: ignore[arg-type]
        statement, call = self.after
        if sql == statement:
            call()
        return done


INSERT = "INSERT INTO rows DEFAULT VALUES"


class File:
    """A file that this process reads and writes, and that another process writes."""

    def __init__(self, path: Path) -> None:
        self.own, self.other = (
            sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, factory=Interrupted
            )
            for _ in range(2)
        )
        self.own.execute("PRAGMA journal_mode = WAL")
        self.own.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
        self.quick = sqlite3.connect(path, check_same_thread=False)
        self.own_writes = OwnWrites(self.quick, WriteTurns(busy_seconds=TIMEOUT), nullcontext)

    def write(self) -> None:
        with self.own_writes.transaction(self.own, threading.Event()):
            self.own.execute(INSERT)

    def close(self) -> None:
        for connection in (self.own, self.other, self.quick):
            connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    opened = File(tmp_path / "file")
    # The commits of others are known from the first own one on.
    opened.write()
    opened.own_writes.revision()
    yield opened
    opened.close()


def test_a_commit_of_another_right_after_the_own_one_shows(file: File) -> None:
    before = file.own_writes.revision()

    def commit_and_look() -> None:
        file.other.execute(INSERT)
        file.own_writes.revision()

    file.own.after = ("COMMIT", commit_and_look)
    file.write()
    assert file.own_writes.revision() != before


def test_an_own_commit_leaves_the_revision_while_the_next_transaction_begins(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine may be busy with other work.
    monkeypatch.setattr(own_writes, "WAIT_SECONDS", 60)
    before = file.own_writes.revision()
    file.write()
    looks: list[object] = []
    looking = threading.Thread(target=lambda: looks.append(file.own_writes.revision()))
    file.own.after = ("BEGIN IMMEDIATE", looking.start)
    file.write()
    looking.join()
    assert looks == [before]
