"""A large load gives way to small writes of other tenants, and they never stop it entirely."""

from __future__ import annotations

import asyncio

from indexing.fairness import current_tenant
from indexing.store.elasticsearch.client.write_priority import WritePriority


async def _load(priority: WritePriority, tenant: str, said: list[str]) -> None:
    current_tenant.set(tenant)
    await priority.give_way()
    said.append("large")


async def _load_beside_a_small_write(small_writer: str | None) -> list[str]:
    priority = WritePriority()
    said: list[str] = []
    current_tenant.set(small_writer)
    with priority.small_write():
        load = asyncio.create_task(_load(priority, "flood", said))
        for _ in range(5):
            await asyncio.sleep(0)
        said.append("small")
    await load
    return said


async def test_a_large_load_waits_for_a_small_write_of_another_tenant() -> None:
    assert await _load_beside_a_small_write(None) == ["small", "large"]


async def test_a_small_write_of_its_own_tenant_does_not_hold_it_up() -> None:
    assert await _load_beside_a_small_write("flood") == ["large", "small"]


async def test_small_writes_without_end_do_not_stop_it() -> None:
    priority = WritePriority()
    said: list[str] = []
    with priority.small_write():
        await asyncio.wait_for(_load(priority, "flood", said), 30)
    assert said == ["large"]
