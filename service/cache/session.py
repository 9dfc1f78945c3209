"""One process' view of the cache: its own copies, what is shared, and one reading for all."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from service.cache.backend import CacheBackend, Snapshot, Versions
from service.cache.codecs import Codec
from service.cache.keys import LIFETIMES, CacheKey
from service.cache.lru import Lru
from service.cache.single_flight import SingleFlight

V = TypeVar("V")

# Some 20,000 test details: more than a CI run of a large repository asks about.
COPIES_MAX_BYTES: Final = 64 * 1024 * 1024

# Values that were kept together do not all end together.
_JITTER_STEPS: Final = 100


@dataclass(frozen=True, slots=True)
class _Copy:
    value: object
    versions: Versions


class Cache:
    """What handlers ask through, by a `CacheSession` for each request."""

    def __init__(self, backend: CacheBackend) -> None:
        self.backend = backend
        self._copies: Lru[_Copy] = Lru(COPIES_MAX_BYTES)
        self._single_flight = SingleFlight()

    async def session(self, namespaces: Sequence[str], keys: Sequence[CacheKey]) -> CacheSession:
        """Begin a request that belongs to these generations and will ask these questions."""
        names = [asked.name for asked in keys if self._copies.find(asked.name) is None]
        return CacheSession(self, await self.backend.snapshot(namespaces, names), names)

    def find_copy(self, key: CacheKey, versions: Versions) -> object | None:
        """The copy of this process, if it belongs to these tokens."""
        copy = self._copies.find(key.name)
        return copy.value if copy is not None and copy.versions == versions else None

    def open_shared(
        self, key: CacheKey, versions: Versions, signed: bytes | None, codec: Codec[V]
    ) -> V | None:
        """The shared value, if it is one of these tokens."""
        if signed is None:
            return None
        payload = self.backend.open(key.name, versions, signed)
        if payload is None:
            return None
        value = codec.unpack(payload)
        self._keep_copy(key, versions, value, codec, LIFETIMES[key.kind])
        return value

    async def load(
        self,
        key: CacheKey,
        versions: Versions,
        read: Callable[[], Coroutine[Any, Any, V | None]],
        codec: Codec[V],
    ) -> V | None:
        """Read the store once for all who ask that now, and keep what it has."""

        async def run() -> V | None:
            began = time.monotonic()
            value = await read()
            if value is not None:
                # The time that the reading took counts: a write may have come right after it began.
                seconds = _lifetime_of(key) - (time.monotonic() - began)
                if seconds > 0:
                    self._keep_copy(key, versions, value, codec, seconds)
                    self.backend.put(key.name, versions, codec.pack(value), seconds)
            return value

        # A reading that began before this request may have missed what is there by now: what is
        # absent makes no token void.
        return await self._single_flight.share((key.name, versions), run, _is_there)

    async def read(
        self, key: CacheKey, read: Callable[[], Coroutine[Any, Any, V | None]]
    ) -> V | None:
        """Read the store once for all who wait for a reading to begin, and keep nothing.

        Without tokens nothing tells whether what a reading under way will give is still true.
        """
        return await self._single_flight.share((key.name, None), read, lambda _: False)

    def _keep_copy(
        self, key: CacheKey, versions: Versions, value: V, codec: Codec[V], seconds: float
    ) -> None:
        deadline = time.monotonic() + min(seconds, self.backend.copy_lifetime)
        size = len(key.name) + codec.size(value)
        self._copies.keep(key.name, _Copy(value, versions), size, deadline)


def _is_there(value: object) -> bool:
    return value is not None


def _always(_value: object) -> bool:
    return True


class CacheSession:
    """What one request asks of the cache, by the generations as they were when it began."""

    __slots__ = ("_cache", "_looked_up", "_values", "_versions")

    def __init__(self, cache: Cache, snapshot: Snapshot, looked_up: Sequence[str]) -> None:
        self._cache = cache
        self._versions: dict[str, bytes] = dict(snapshot.versions)
        self._values: Mapping[str, bytes] = snapshot.values
        self._looked_up = frozenset(looked_up)

    def versions_of(self, namespaces: Sequence[str]) -> Versions | None:
        """The tokens as they were when the request began, unless one is not known."""
        try:
            return tuple([self._versions[namespace] for namespace in namespaces])
        except KeyError:
            return None

    async def find(
        self,
        key: CacheKey,
        read: Callable[[], Coroutine[Any, Any, V | None]],
        codec: Codec[V],
        holds: Callable[[V], bool] = _always,
    ) -> V | None:
        """The value that is kept and holds, or what `read` gives, which is kept from then on.

        Nothing is kept of nothing.

        Raises:
            Whatever `read` raises, for all who wait for it.
        """
        versions = self.versions_of(key.namespaces)
        if versions is None:
            versions = await self._ensure_versions(key.namespaces)
        if versions is None:
            return await self._cache.read(key, read)
        # What is kept under a name was made by the one form of its kind.
        copy = cast("V | None", self._cache.find_copy(key, versions))
        if copy is not None and holds(copy):
            return copy
        signed = await self._shared(key)
        value = self._cache.open_shared(key, versions, signed, codec)
        if value is not None and holds(value):
            return value
        return await self._cache.load(key, versions, read, codec)

    async def _shared(self, key: CacheKey) -> bytes | None:
        if key.name in self._looked_up:
            return self._values.get(key.name)
        return (await self._cache.backend.snapshot((), (key.name,))).values.get(key.name)

    async def _ensure_versions(self, namespaces: Sequence[str]) -> Versions | None:
        missing = [name for name in namespaces if name not in self._versions]
        self._versions.update(await self._cache.backend.ensure_versions(missing))
        return self.versions_of(namespaces)


def _lifetime_of(key: CacheKey) -> float:
    """The lifetime of its kind or a little less, by its name."""
    step = zlib.crc32(key.name.encode()) % _JITTER_STEPS
    return LIFETIMES[key.kind] * (1 - step / (5 * _JITTER_STEPS))
