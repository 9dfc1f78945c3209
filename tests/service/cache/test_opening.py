"""The cache that a command opens to invalidate it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from indexing.store import open_store
from indexing.store.interface import Store, StoreIdentity
from service.cache import opening
from service.cache.backend import CacheBackend
from service.cache.opening import LazyInvalidator, open_backend
from service.config.settings import Settings


async def test_writes_at_the_same_time_open_one_connection_to_redis(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[CacheBackend] = []

    async def note(settings: Settings, store: Store, identity: StoreIdentity) -> CacheBackend:
        opened.append(await open_backend(settings, store, identity))
        return opened[-1]

    monkeypatch.setattr(opening, "open_backend", note)
    settings = Settings(data_dir=tmp_path, redis_url=redis_url)
    store = await open_store(settings.store)
    invalidator = LazyInvalidator(settings, store)
    try:
        await asyncio.gather(*(invalidator.invalidate([str(number)]) for number in range(10)))
    finally:
        await invalidator.close()
        await store.close()
    assert len(opened) == 1
