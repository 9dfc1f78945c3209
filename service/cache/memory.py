"""The cache backend in a process's own memory. It detects other processes' writes to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

from indexing.errors import StoreError
from service.cache.backend import CacheBackend, Snapshot, Versions, make_version
from service.cache.keys import LIFETIME

# Each takes some 200 bytes. Beyond this number, everything is invalidated at once.
_MAX_VERSIONS: Final = 100_000

Revision = Callable[[], Hashable | None]


class MemoryBackend(CacheBackend):
    """Holds the versions if there is no Redis; values are not shared.

    `revision` is `Reader.revision`. If it returns `None`, writes of other processes show only when
    the cached values expire.
    """

    def __init__(self, revision: Revision) -> None:
        self.copy_lifetime = LIFETIME
        self.is_shared = False
        self._revision = revision
        self._seen: Hashable | None = None
        # Whether this iteration of the event loop has checked, and whether a new request did so.
        self._is_fresh = False
        self._is_fresh_on_arrival = False
        self._first = make_version()
        self._versions: dict[str, bytes] = {}

    @property
    def sees_all_writes(self) -> bool:
        return self._seen is not None

    @property
    def status(self) -> None:
        return None

    @property
    def confirmed_values(self) -> None:
        return None

    def time_exchanges(self, observe: Callable[[float], None]) -> None:
        """Do nothing: there is no shared server."""

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        return self.known_versions(namespaces)

    def find_versions(self, namespaces: tuple[str, ...]) -> Versions:
        # uvloop receives requests between the callbacks of two iterations: a callback may have
        # checked before this request was sent.
        if not self._is_fresh_on_arrival:
            self._is_fresh = False
            self._notice_writes()
            self._is_fresh_on_arrival = True
        return self._versions_of(namespaces)

    def known_versions(self, namespaces: tuple[str, ...]) -> Versions:
        self._notice_writes()
        return self._versions_of(namespaces)

    def _versions_of(self, namespaces: tuple[str, ...]) -> Versions:
        versions, first = self._versions, self._first
        # A list comprehension is faster than a generator, and every request runs this.
        return tuple([versions.get(namespace, first) for namespace in namespaces])

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:  # noqa: ARG002 - no value is shared
        return Snapshot(await self.ensure_versions(namespaces))

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        self._notice_writes()
        return {name: self._versions.get(name, self._first) for name in namespaces}

    def verify(self, name: str, versions: Versions, signed: bytes) -> bytes | None:  # noqa: ARG002 - no value is shared
        return None

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        """Share nothing: the copies in this process are enough."""

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:  # noqa: ARG002 - no counter is shared
        return None

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self._versions[namespace] = make_version()
        if len(self._versions) > _MAX_VERSIONS:
            self._invalidate_all()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _notice_writes(self) -> None:
        """Invalidate everything when any process has committed since the last check.

        One check serves all requests that are handled by the callbacks of one iteration of the
        event loop: all of them arrived before it began.
        """
        if self._is_fresh:
            return
        self._is_fresh = True
        asyncio.get_running_loop().call_soon(self._expire)
        try:
            revision = self._revision()
        except StoreError:
            # The next read of the store raises the error.
            revision = object()
        if revision != self._seen:
            self._seen = revision
            self._invalidate_all()

    def _invalidate_all(self) -> None:
        self._first = make_version()
        self._versions.clear()

    def _expire(self) -> None:
        self._is_fresh = False
        self._is_fresh_on_arrival = False
