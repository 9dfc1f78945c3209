"""The two caches of the peer, each in the common way of its library."""

from __future__ import annotations

from typing import Any, Final

from cachetools import TTLCache
from redis.asyncio import Redis

TTL_SECONDS: Final = 60
_ENTRIES: Final = 10_000


class MemoryCache:
    """Responses cached in the process."""

    def __init__(self) -> None:
        self._kept: TTLCache[str, bytes] = TTLCache(_ENTRIES, TTL_SECONDS)

    async def get(self, key: str) -> bytes | None:
        return self._kept.get(key)

    async def set(self, key: str, value: bytes) -> None:
        self._kept[key] = value


class RedisCache:
    """Responses cached in Redis, with one command for each call."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url)

    async def get(self, key: str) -> bytes | None:
        found: Any = await self._redis.get(key)
        return found if found is None else bytes(found)

    async def set(self, key: str, value: bytes) -> None:
        await self._redis.set(key, value, ex=TTL_SECONDS)
