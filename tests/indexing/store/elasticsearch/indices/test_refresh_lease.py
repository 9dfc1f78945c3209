"""One process at a time refreshes a repository, and no dead process holds the others up."""

from __future__ import annotations

import asyncio

import pytest

from indexing.store.elasticsearch.indices import refresh_lease
from indexing.store.elasticsearch.indices.refresh_lease import RefreshLease, RefreshLeases
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.indexing.store.elasticsearch.inspection import cluster_of

PLACE = "0" * 32


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_lease, "LOOK_SECONDS", 0.01)


@pytest.fixture(params=["one process", "two processes"])
def both(
    request: pytest.FixtureRequest, store: ElasticsearchStore, other: ElasticsearchStore
) -> tuple[RefreshLeases, RefreshLeases]:
    second = store if request.param == "one process" else other
    return cluster_of(store).refresh_leases, cluster_of(second).refresh_leases


async def test_a_second_refresh_waits_for_the_first(
    both: tuple[RefreshLeases, RefreshLeases],
) -> None:
    order: list[str] = []
    holds, may_end = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with both[0].hold(PLACE) as lease:
            assert lease.is_clean
            holds.set()
            await may_end.wait()
            order.append("first")

    async def second() -> None:
        await holds.wait()
        may_end.set()
        async with both[1].hold(PLACE) as lease:
            order.append("second")
            assert lease.is_clean

    await asyncio.gather(first(), second())
    assert order == ["first", "second"]


async def test_leases_of_different_repositories_are_independent(
    both: tuple[RefreshLeases, RefreshLeases],
) -> None:
    async with both[0].hold(PLACE), asyncio.timeout(30), both[1].hold("1" * 32) as lease:
        assert lease.is_clean
        assert not lease.met_others


async def test_only_the_next_refresh_learns_of_a_failed_one(
    both: tuple[RefreshLeases, RefreshLeases],
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with both[0].hold(PLACE):
            raise ZeroDivisionError
    async with both[1].hold(PLACE) as lease:
        assert lease.is_held
        assert not lease.is_clean
    async with both[0].hold(PLACE) as lease:
        assert lease.is_clean


async def test_the_lease_of_a_dead_process_is_taken_over(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_lease, "EXPIRES_SECONDS", 0.2)
    await leave_behind(store)
    async with cluster_of(other).refresh_leases.hold(PLACE) as lease:
        assert lease.is_held
        assert not lease.is_clean
        assert lease.met_others


async def test_a_living_holder_keeps_its_lease(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_lease, "RENEWED_SECONDS", 0.02)
    monkeypatch.setattr(refresh_lease, "WAIT_SECONDS", 1.0)
    async with cluster_of(store).refresh_leases.hold(PLACE) as first:
        # Nobody waits longer than that, and goes on without the lease.
        async with cluster_of(other).refresh_leases.hold(PLACE) as second:
            assert not second.is_held
            assert not second.is_clean
        assert first.is_clean


async def leave_behind(store: ElasticsearchStore) -> None:
    """Take the lease and never release it, as a process that is killed does."""
    cluster = cluster_of(store)
    lease = RefreshLease(cluster.connection, cluster.layout.control, PLACE)
    await lease.acquire()
    assert lease.is_held
