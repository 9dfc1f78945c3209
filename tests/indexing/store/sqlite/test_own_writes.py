"""A process tells its own commits from those of others, also while it writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexing.store.sqlite.connections import Connections


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
