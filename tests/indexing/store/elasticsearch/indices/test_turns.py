"""Refreshes of one repository take turns, and no dead process holds the others up."""

from __future__ import annotations

import asyncio

import pytest

from indexing.store.elasticsearch.indices import turns
from indexing.store.elasticsearch.indices.turns import Turn, Turns
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.indexing.store.elasticsearch.inspection import cluster_of

PLACE = "0" * 32


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.01)


@pytest.fixture(params=["one process", "two processes"])
def both(
    request: pytest.FixtureRequest, store: ElasticsearchStore, other: ElasticsearchStore
) -> tuple[Turns, Turns]:
    second = store if request.param == "one process" else other
    return cluster_of(store).turns, cluster_of(second).turns


async def test_a_second_refresh_waits_for_the_first(both: tuple[Turns, Turns]) -> None:
    order: list[str] = []
    holds, may_end = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with both[0].take(PLACE) as turn:
            assert turn.is_clean
            holds.set()
            await may_end.wait()
            order.append("first")

    async def second() -> None:
        await holds.wait()
        may_end.set()
        async with both[1].take(PLACE) as turn:
            order.append("second")
            assert turn.is_clean

    await asyncio.gather(first(), second())
    assert order == ["first", "second"]


async def test_a_turn_of_another_repository_waits_for_nobody(both: tuple[Turns, Turns]) -> None:
    async with both[0].take(PLACE), asyncio.timeout(30), both[1].take("1" * 32) as turn:
        assert turn.is_clean
        assert not turn.met_others


async def test_a_refresh_that_failed_is_told_to_the_next_one_alone(
    both: tuple[Turns, Turns],
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with both[0].take(PLACE):
            raise ZeroDivisionError
    async with both[1].take(PLACE) as turn:
        assert turn.is_held
        assert not turn.is_clean
    async with both[0].take(PLACE) as turn:
        assert turn.is_clean


async def test_the_lease_of_a_dead_process_is_taken_over(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "EXPIRES_SECONDS", 0.2)
    await leave_behind(store)
    async with cluster_of(other).turns.take(PLACE) as turn:
        assert turn.is_held
        assert not turn.is_clean
        assert turn.met_others


async def test_a_living_holder_keeps_its_lease(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RENEWED_SECONDS", 0.02)
    monkeypatch.setattr(turns, "WAIT_SECONDS", 1.0)
    async with cluster_of(store).turns.take(PLACE) as first:
        # Nobody waits longer than that, and goes on without the lease.
        async with cluster_of(other).turns.take(PLACE) as second:
            assert not second.is_held
            assert not second.is_clean
        assert first.is_clean


async def leave_behind(store: ElasticsearchStore) -> None:
    """Take the lease and never release it, as a process that is killed does."""
    cluster = cluster_of(store)
    turn = Turn(cluster.connection, cluster.layout.control, f"turn-{PLACE}")
    await turn.take()
    assert turn.is_held
