"""Values in Redis whose writes are confirmed, and whose absence differs from a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from service.cache.confirmed import CacheUnavailableError, ConfirmedValues
from service.cache.redis_connection import RedisConnection
from service.cache.redis_connector import Command
from service.cache.signing import CacheSigner

T = TypeVar("T")

_TEXT: Final = "Redis does not answer, or has no memory left"


class RedisValues(ConfirmedValues):
    """Signed values under names of their own, beside those of the cache."""

    def __init__(self, connection: RedisConnection, signer: CacheSigner, prefix: str) -> None:
        self._redis = connection
        self._signer = signer
        self._prefix = prefix

    async def keep(self, name: str, value: bytes, seconds: float) -> None:
        full_name = self._name(name)
        signed = self._signer.sign(full_name, (), value)
        await self._execute(("SET", full_name.encode(), signed, "PX", max(1, int(seconds * 1000))))

    async def find(self, name: str) -> bytes | None:
        full_name = self._name(name)
        (signed,) = await self._try_twice(lambda: self._redis.get((full_name.encode(),)))
        return None if signed is None else self._signer.verify(full_name, (), signed)

    async def drop(self, name: str) -> None:
        await self._execute(("DEL", self._name(name).encode()))

    def _name(self, name: str) -> str:
        return f"{self._prefix}confirmed:{name}"

    async def _execute(self, command: Command) -> None:
        (reply,) = await self._try_twice(lambda: self._redis.execute([command]))
        # The reply to a write that was refused because Redis is full.
        if reply is None:
            raise CacheUnavailableError(_TEXT)

    async def _try_twice(self, ask: Callable[[], Awaitable[T | None]]) -> T:
        """Return the reply; connect again first if the server has closed an idle connection."""
        reply = await ask()
        if reply is None and await self._redis.connect():
            reply = await ask()
        if reply is None:
            raise CacheUnavailableError(_TEXT)
        return reply
