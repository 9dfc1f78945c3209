"""The cache backend in Redis, which processes share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeGuard, cast

from service.cache.backend import (
    VERSION_SIZE,
    CacheBackend,
    SharedStatus,
    Snapshot,
    Versions,
    make_version,
)
from service.cache.keys import (
    COPY_LIFETIME,
    CREDENTIALS,
    EVERYTHING,
    FORMAT,
    LONGEST_LIFETIME,
)
from service.cache.redis_connection import RedisConnection
from service.cache.redis_connector import Command
from service.cache.redis_failures import Reason
from service.cache.redis_values import RedisValues
from service.cache.signing import CacheSigner

# Longer than the lifetime of any value, so that a lost version costs little; short enough for Redis
# to drop the versions of repositories that nobody reads.
_VERSION_SECONDS: Final = 24 * 60 * 60

# How long a writer waits for its invalidation to reach Redis. After that it continues without it.
INVALIDATE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.1

# With more pending namespaces than this, everything is invalidated at once.
_MAX_PENDING: Final = 10_000

# One entry for each test or list with cached responses.
_MAX_KEPT_KEYS: Final = 10_000

_log = logging.getLogger(__name__)


def key_prefix(store_id: str) -> str:
    """Return the prefix of all Redis keys of one store.

    The braces are a hash tag: a cluster keeps all keys of one store on one node, so that one MGET
    can read any of them.
    """
    return f"mergewatch:{FORMAT}:{{{store_id}}}:"


class RedisBackend(CacheBackend):
    """The cache that all processes over one store share. Several stores may use one Redis."""

    def __init__(self, connection: RedisConnection, signer: CacheSigner, store_id: str) -> None:
        self.copy_lifetime = COPY_LIFETIME
        self.is_shared = True
        self._redis = connection
        self._signer = signer
        self._prefix = key_prefix(store_id)
        self._keys: dict[tuple[str, ...], tuple[bytes, ...]] = {}
        # The namespaces whose invalidation Redis has not confirmed, and when older values expire.
        self._pending: dict[str, float] = {}
        self._sending: asyncio.Task[None] | None = None
        # Set while writers need not wait: Redis has confirmed all invalidations, or refuses them.
        self._writers_may_continue = asyncio.Event()
        self._writers_wait = True

    @property
    def sees_all_writes(self) -> bool:
        return True

    @property
    def status(self) -> SharedStatus:
        counts = {reason.value: self._redis.failures.get(reason, 0) for reason in Reason}
        return SharedStatus(self._redis.is_usable, counts)

    @property
    def confirmed_values(self) -> RedisValues:
        return RedisValues(self._redis, self._signer, self._prefix)

    def time_exchanges(self, observe: Callable[[float], None]) -> None:
        self._redis.time_exchanges(observe)

    def find_versions(self, namespaces: tuple[str, ...]) -> None:  # noqa: ARG002 - Redis knows
        return None

    def known_versions(self, namespaces: tuple[str, ...]) -> None:  # noqa: ARG002 - Redis knows
        return None

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        replies = await self._redis.get(self._namespace_keys(namespaces))
        if replies is None or (self._pending and not self._pending.keys().isdisjoint(namespaces)):
            return None
        # A namespace without a version matches nothing.
        return None if None in replies else cast("Versions", replies)

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:
        keys = [*map(self._namespace_key, namespaces), *map(self._value_key, names)]
        replies = await self._redis.get(tuple(keys))
        if replies is None:
            return Snapshot()
        count = len(namespaces)
        return Snapshot(
            {
                name: version
                for name, version in zip(namespaces, replies[:count], strict=True)
                if _is_version(version) and name not in self._pending
            },
            {
                name: value
                for name, value in zip(names, replies[count:], strict=True)
                if value is not None
            },
        )

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        wanted = [name for name in namespaces if name not in self._pending]
        versions = await self._make_versions(wanted, "NX")
        # A value that is not a version was written by another program.
        broken = [name for name in wanted if name not in versions]
        return versions | await self._make_versions(broken) if broken else versions

    def verify(self, name: str, versions: Versions, signed: bytes) -> bytes | None:
        return self._signer.verify(self._value_name(name), versions, signed)

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        signed = self._signer.sign(self._value_name(name), versions, payload)
        command = ("SET", self._value_key(name), signed, "PX", max(1, int(seconds * 1000)))
        self._redis.write(command, len(signed))

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:
        key = f"{self._prefix}count:{name}".encode()
        milliseconds = max(1, int(seconds * 1000))
        replies = await self._redis.execute(
            [
                ("SET", key, 0, "PX", milliseconds, "NX"),
                ("INCRBY", key, more),
                ("PTTL", key),
            ]
        )
        if replies is None or not isinstance(replies[1], int) or not isinstance(replies[2], int):
            return None
        if replies[2] < 0:
            # It expired between the first two commands: INCRBY made a counter that never expires.
            await self._redis.execute([("PEXPIRE", key, milliseconds)])
            return replies[1], seconds
        return replies[1], replies[2] / 1000

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        until = time.monotonic() + LONGEST_LIFETIME
        self._pending.update(dict.fromkeys(namespaces, until))
        if not self._pending:
            return
        if len(self._pending) > _MAX_PENDING:
            # Every value but a credential depends on `EVERYTHING` too.
            self._pending = dict.fromkeys((CREDENTIALS, EVERYTHING), until)
        if self._sending is None:
            self._writers_may_continue.clear()
            self._sending = asyncio.create_task(self._send_pending())
        if self._writers_wait:
            await self._wait_for_redis()

    async def close(self) -> None:
        if self._sending is not None:
            await self._wait_for_redis()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await self._redis.close()

    async def _wait_for_redis(self) -> None:
        """Wait until Redis has confirmed all invalidations, at most `INVALIDATE_SECONDS`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(INVALIDATE_SECONDS):
                await self._writers_may_continue.wait()
        if self._pending and self._writers_wait:
            # From now on no writer waits, or a long import would wait at each of its steps.
            self._writers_wait = False
            _log.warning(
                "redis invalidation failed, other processes may serve old data",
                extra={"seconds": LONGEST_LIFETIME},
            )

    async def _send_pending(self) -> None:
        """Send the pending invalidations until Redis has them or every older value has expired."""
        try:
            while self._pending:
                pending = dict(self._pending)
                if await self._redis.connect():
                    replies = await self._redis.execute([self._drop_versions(pending)])
                    if replies is not None and None not in replies:
                        self._remove_pending(pending)
                        continue
                elif self._redis.is_refused:
                    # A new connection was refused as well: waiting does not help.
                    self._writers_may_continue.set()
                now = time.monotonic()
                self._remove_pending({each: end for each, end in pending.items() if end <= now})
                if self._pending:
                    await asyncio.sleep(_RETRY_SECONDS)
            self._writers_wait = True
        finally:
            self._sending = None
            self._writers_may_continue.set()

    def _remove_pending(self, done: Mapping[str, float]) -> None:
        for name, until in done.items():
            # A namespace that changed again in the meantime stays pending: its time differs.
            if self._pending.get(name) == until:
                del self._pending[name]

    async def _make_versions(self, names: Sequence[str], *condition: str) -> dict[str, bytes]:
        commands: list[Command] = []
        for name in names:
            commands += (self._set_version(name, *condition), ("GET", self._namespace_key(name)))
        replies = await self._redis.execute(commands)
        if replies is None:
            return {}
        # Read back, so that processes that make a version at the same time agree.
        held = zip(names, replies[1::2], strict=True)
        return {name: version for name, version in held if _is_version(version)}

    def _drop_versions(self, names: Iterable[str]) -> Command:
        # The next reader makes a new version. Unlike SET, DEL also works when Redis is full.
        return ("DEL", *map(self._namespace_key, names))

    def _set_version(self, name: str, *condition: str) -> Command:
        return (
            "SET",
            self._namespace_key(name),
            make_version(),
            *condition,
            "EX",
            _VERSION_SECONDS,
        )

    def _namespace_keys(self, namespaces: tuple[str, ...]) -> tuple[bytes, ...]:
        keys = self._keys.get(namespaces)
        if keys is None:
            if len(self._keys) >= _MAX_KEPT_KEYS:
                self._keys.clear()
            keys = self._keys[namespaces] = tuple(map(self._namespace_key, namespaces))
        return keys

    def _namespace_key(self, name: str) -> bytes:
        # Processes of older releases use the same keys, so the old word for version stays.
        return f"{self._prefix}generation:{name}".encode()

    def _value_key(self, name: str) -> bytes:
        return self._value_name(name).encode()

    def _value_name(self, name: str) -> str:
        # The store is part of the signed name: several stores may share a secret.
        return f"{self._prefix}value:{name}"


def _is_version(reply: object) -> TypeGuard[bytes]:
    return isinstance(reply, bytes) and len(reply) == VERSION_SIZE
