"""The cache of a process: its own copies, the shared values, and a session for each request.

Concurrent requests for the same value share one read of the store (single flight).
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeVar, cast

from indexing.errors import StoreUnavailableError, StoreVersionError
from indexing.lru import Lru
from service.cache.backend import CacheBackend, Snapshot, Versions
from service.cache.codecs import Codec
from service.cache.keys import LIFETIMES, CacheKey

V = TypeVar("V")

# Some 20,000 test details: more than a CI run of a large repository reads.
COPIES_MAX_BYTES: Final = 64 * 1024 * 1024

# A larger value takes long to sign, which blocks the event loop, and to send: 8 ms at a gigabit a
# second, for which the look-ups of all requests wait.
SHARED_MAX_BYTES: Final = 1024 * 1024

# A call that began this long ago may have run out of the time of the request that began it.
_EARLIER_SECONDS: Final = 0.1

# Values that were cached together do not all expire together.
_JITTER_STEPS: Final = 100


def _always(_value: object) -> bool:
    return True


class _Flight(Generic[V]):
    """A call in progress, and a future for each of its waiters.

    Each waiter has its own future, because `asyncio.shield` takes two more callbacks.
    """

    __slots__ = ("began", "task", "waiters")

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self.waiters: set[asyncio.Future[V]] = set()


class SingleFlight:
    """Calls in progress by name. All waiters of a call get the same value or error.

    Cancelling one waiter leaves the others waiting; once all are cancelled, so is the call.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, _Flight[Any]] = {}

    async def share(
        self,
        name: Hashable,
        work: Callable[[], Coroutine[Any, Any, V]],
        holds: Callable[[V], bool] = _always,
    ) -> V:
        """Return the result of the call of that name: the one in progress, or a new one.

        If the call in progress ends with a result that `holds` rejects, or because the store was
        not available in the time that was left to its own request, wait for the next call.
        """
        flight: _Flight[V] | None = self._under_way.get(name)
        if flight is None:
            return await self._wait(name, self._begin(name, work))
        is_earlier = time.monotonic() - flight.began > _EARLIER_SECONDS
        try:
            found = await self._wait(name, flight)
        except StoreVersionError:
            raise
        except StoreUnavailableError:
            if not is_earlier:
                raise
        else:
            if holds(found):
                return found
        # The earlier call has just ended: a call in progress now began after this request.
        return await self._wait(name, self._under_way.get(name) or self._begin(name, work))

    def _begin(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, V]]) -> _Flight[V]:
        flight: _Flight[V] = _Flight()
        self._under_way[name] = flight
        flight.task = asyncio.create_task(self._run(name, flight, work))
        return flight

    async def _run(
        self, name: Hashable, flight: _Flight[V], work: Callable[[], Coroutine[Any, Any, V]]
    ) -> None:
        """Call `work` and pass its result or error to all waiters."""
        try:
            result = await work()
        except BaseException as error:
            self._forget(name, flight)
            if not flight.waiters or not isinstance(error, Exception):
                for waiter in flight.waiters:
                    waiter.cancel()
                raise
            for waiter in flight.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
        else:
            self._forget(name, flight)
            for waiter in flight.waiters:
                if not waiter.done():
                    waiter.set_result(result)

    async def _wait(self, name: Hashable, flight: _Flight[V]) -> V:
        waiter: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        flight.waiters.add(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            flight.waiters.discard(waiter)
            if not flight.waiters and flight.task is not None:
                self._forget(name, flight)
                flight.task.cancel()
            raise

    def _forget(self, name: Hashable, flight: _Flight[Any]) -> None:
        # Another call of that name may have begun since.
        if self._under_way.get(name) is flight:
            del self._under_way[name]


@dataclass(slots=True)
class CacheReads:
    """The number of values read, by where they were found."""

    process: int = 0
    redis: int = 0
    store: int = 0


@dataclass(frozen=True, slots=True)
class _Copy:
    value: object
    versions: Versions


class Cache:
    """The cache of one process. Each request reads it through a `CacheSession`."""

    def __init__(self, backend: CacheBackend, reads: CacheReads | None = None) -> None:
        self.backend = backend
        self.reads = reads or CacheReads()
        self._copies: Lru[_Copy] = Lru(COPIES_MAX_BYTES)
        self._single_flight = SingleFlight()

    async def open_session(
        self, namespaces: Sequence[str], keys: Sequence[CacheKey]
    ) -> CacheSession:
        """Open a session that has looked up these namespaces and keys in one call."""
        names = [key.name for key in keys if self._copies.find(key.name) is None]
        return CacheSession(self, await self.backend.snapshot(namespaces, names), names)

    def find_copy(self, key: CacheKey, versions: Versions) -> object | None:
        """Return the copy of this process if it was made under these versions."""
        copy = self._copies.find(key.name)
        return copy.value if copy is not None and copy.versions == versions else None

    def verify_shared(
        self, key: CacheKey, versions: Versions, signed: bytes | None, codec: Codec[V]
    ) -> V | None:
        """Return the shared value if its signature is valid for these versions."""
        if signed is None:
            return None
        payload = self.backend.verify(key.name, versions, signed)
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
        holds: Callable[[V], bool],
    ) -> V | None:
        """Read the store once for all concurrent requests for this key, and cache the result.

        A request that joins a read in progress gets its result if that `holds`.
        """

        async def run() -> V | None:
            began = time.monotonic()
            value = await read()
            if value is not None:
                # Less the time that the read took: a write may have come right after it began.
                seconds = _lifetime_of(key) - (time.monotonic() - began)
                if seconds > 0:
                    self._keep_copy(key, versions, value, codec, seconds)
                    if self.backend.is_shared and codec.size(value) <= SHARED_MAX_BYTES:
                        self.backend.put(key.name, versions, codec.pack(value), seconds)
            return value

        # A read that began before this request may have missed a row that exists by now: a new row
        # does not change any version. Nor does time, which may have ended what the read found.
        return await self._single_flight.share(
            (key.name, versions), run, lambda found: found is not None and holds(found)
        )

    async def read(
        self, key: CacheKey, read: Callable[[], Coroutine[Any, Any, V | None]]
    ) -> V | None:
        """Read the store once for all requests that wait for the next read; cache nothing.

        Without versions, the result of a read in progress may be outdated, so it is not shared.
        """
        return await self._single_flight.share((key.name, None), read, lambda _: False)

    def _keep_copy(
        self, key: CacheKey, versions: Versions, value: V, codec: Codec[V], seconds: float
    ) -> None:
        deadline = time.monotonic() + min(seconds, self.backend.copy_lifetime)
        size = len(key.name) + codec.size(value)
        self._copies.keep(key.name, _Copy(value, versions), size, deadline)


_NOTHING: Final = Snapshot()


class CacheSession:
    """The cache as one request sees it.

    The versions are those from the start of the request or, without a server, from the first time
    that the request needed them.
    """

    __slots__ = ("_cache", "_looked_up", "_used", "_values", "_versions", "found_all")

    def __init__(
        self, cache: Cache, snapshot: Snapshot = _NOTHING, looked_up: Sequence[str] = ()
    ) -> None:
        self._cache = cache
        self._versions: dict[str, bytes] = {**snapshot.versions}
        self._values = snapshot.values
        self._looked_up = looked_up
        # The namespaces of each value, joined only if the response is cached.
        self._used: list[tuple[str, ...]] = []
        # Whether no value had to be read from the store.
        self.found_all = True

    @property
    def sees_all_writes(self) -> bool:
        """Whether the writes of all processes change the versions."""
        return self._cache.backend.sees_all_writes

    @property
    def used_namespaces(self) -> tuple[str, ...]:
        """The namespaces of all values that the request has read."""
        return tuple(dict.fromkeys(chain.from_iterable(self._used)))

    def versions_of(self, namespaces: Sequence[str]) -> Versions | None:
        """Return the versions that the request has seen; `None` if one is unknown."""
        seen = self._versions
        found = tuple([seen[namespace] for namespace in namespaces if namespace in seen])
        return found if len(found) == len(namespaces) else None

    def use(self, namespaces: tuple[str, ...]) -> Versions | None:
        """Note that the request reads values of these namespaces; return their versions.

        `None` if it takes a server to tell one.
        """
        self._used.append(namespaces)
        versions = self.versions_of(namespaces)
        if versions is not None:
            return versions
        known = self._cache.backend.known_versions(namespaces)
        if known is None:
            return None
        # Those that the request has seen already stay.
        keep = self._versions.setdefault
        return tuple([keep(name, version) for name, version in zip(namespaces, known, strict=True)])

    def find_copy(self, key: CacheKey) -> object | None:
        """Return this process's copy of a value that does not depend on the time.

        `None` if there is none, or it takes a server to tell whether it is valid.
        """
        versions = self.use(key.namespaces)
        copy = None if versions is None else self._cache.find_copy(key, versions)
        if copy is not None:
            self._cache.reads.process += 1
        return copy

    async def find(
        self,
        key: CacheKey,
        read: Callable[[], Coroutine[Any, Any, V | None]],
        codec: Codec[V],
        holds: Callable[[V], bool] = _always,
    ) -> V | None:
        """Return the cached value if it still `holds`, else the result of `read`, which is cached.

        `None` is never cached.

        Raises:
            Whatever `read` raises, in all requests that share it from its beginning.
        """
        versions = self.use(key.namespaces) or await self._ensure_versions(key.namespaces)
        reads = self._cache.reads
        if versions is not None:
            # Every value of one kind has the same codec, and so the same type.
            copy = cast("V | None", self._cache.find_copy(key, versions))
            if copy is not None and holds(copy):
                reads.process += 1
                return copy
            if self._cache.backend.is_shared:
                signed = await self._shared(key)
                value = self._cache.verify_shared(key, versions, signed, codec)
                if value is not None and holds(value):
                    reads.redis += 1
                    return value
        self.found_all = False
        reads.store += 1
        if versions is None:
            return await self._cache.read(key, read)
        return await self._cache.load(key, versions, read, codec, holds)

    async def _shared(self, key: CacheKey) -> bytes | None:
        if key.name in self._looked_up:
            return self._values.get(key.name)
        return (await self._cache.backend.snapshot((), (key.name,))).values.get(key.name)

    async def _ensure_versions(self, namespaces: Sequence[str]) -> Versions | None:
        missing = [name for name in namespaces if name not in self._versions]
        self._versions.update(await self._cache.backend.ensure_versions(missing))
        return self.versions_of(namespaces)


def _lifetime_of(key: CacheKey) -> float:
    """Return the lifetime of the key's kind, less up to a fifth that depends on its name."""
    step = zlib.crc32(key.name.encode()) % _JITTER_STEPS
    return LIFETIMES[key.kind] * (1 - step / (5 * _JITTER_STEPS))
