"""The leases of background tasks, such as the sender of notifications."""

from __future__ import annotations

from indexing.store.interface import Store
from tests.builders import NOON, after
from tests.contracts.conftest import on_stores_and_one_cache

pytestmark = on_stores_and_one_cache


async def test_one_owner_holds_a_lease_until_it_ends(store: Store) -> None:
    assert await store.hold_lease("a", "first", NOON, after(minutes=1))
    assert not await store.hold_lease("a", "second", NOON, after(minutes=1))
    assert await store.hold_lease("b", "second", NOON, after(minutes=1))
    assert await store.hold_lease("a", "first", after(seconds=30), after(seconds=90))
    assert not await store.hold_lease("a", "second", after(seconds=80), after(minutes=9))
    assert await store.hold_lease("a", "second", after(seconds=90), after(minutes=9))
    await store.release_lease("a", "first")
    assert not await store.hold_lease("a", "first", after(minutes=2), after(minutes=9))
    await store.release_lease("a", "second")
    # A wrong clock makes the lease far too long; another owner can still take it.
    assert await store.hold_lease("a", "first", after(minutes=2), after(days=9))
    assert await store.hold_lease("a", "second", after(minutes=3), after(minutes=9))
