"""Chooses the cache backend: Redis if the settings name one, else the process's own memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from indexing.store.interface import Store, StoreIdentity
from service.cache.backend import CacheBackend
from service.cache.invalidation import Invalidator
from service.cache.memory import MemoryBackend
from service.config.secret import choose_secret
from service.config.settings import Settings


async def open_backend(settings: Settings, store: Store, identity: StoreIdentity) -> CacheBackend:
    """Open the cache of one store. A Redis that does not answer is tried again later."""
    if settings.redis_url is None:
        return MemoryBackend(store.revision)
    # Importing it takes longer than most commands run, and most stores have no Redis.
    from service.cache.redis import RedisBackend, key_prefix
    from service.cache.redis_connection import RedisConnection
    from service.cache.signing import CacheSigner

    # The prefix sets a restored backup apart: it has the same id as the store beside it.
    store_id = f"{identity.store_id}:{settings.elasticsearch_prefix}"
    connection = RedisConnection(settings.redis_url, f"{key_prefix(store_id)}probe".encode())
    await connection.open()
    secret = choose_secret(settings.secret, identity.cursor_secret)
    return RedisBackend(connection, CacheSigner(secret), store_id)


class LazyInvalidator(Invalidator):
    """Invalidates the cache for a command that may write; the cache is opened on first use."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._backend: CacheBackend | None = None
        # Writes of a command that run at the same time share one cache.
        self._opening = asyncio.Lock()

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        async with self._opening:
            if self._backend is None:
                identity = await self._store.get_identity()
                self._backend = await open_backend(self._settings, self._store, identity)
        await self._backend.invalidate(namespaces)

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()
