"""Generations of one process, which learns from the store what others write, if that tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from indexing.errors import StoreError
from service.cache.backend import CacheBackend, Snapshot, Versions, make_version
from service.cache.keys import LIFETIME

Revision = Callable[[], Hashable | None]


class MemoryBackend(CacheBackend):
    """The cache's generations where there is no Redis: no value is shared.

    `revision` is `Reader.revision`. Where it tells nothing, other processes' writes show when the
    values that they change have had their time.
    """

    def __init__(self, revision: Revision) -> None:
        self.copy_lifetime = LIFETIME
        self._revision = revision
        self._seen: Hashable | None = None
        self._is_fresh = False
        self._first = make_version()
        self._versions: dict[str, bytes] = {}

    @property
    def status(self) -> None:
        return None

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        self._notice_writes()
        versions, first = self._versions, self._first
        # Lists are made faster than generators are run, and every request comes by here.
        return tuple([versions.get(namespace, first) for namespace in namespaces])

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:  # noqa: ARG002 - no value is here
        return Snapshot(await self.ensure_versions(namespaces))

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        self._notice_writes()
        return {name: self._versions.get(name, self._first) for name in namespaces}

    def open(self, name: str, versions: Versions, signed: bytes) -> bytes | None:  # noqa: ARG002 - no value is here
        return None

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        """Hold nothing: what this process keeps is enough."""

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:  # noqa: ARG002 - no count is here
        return None

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self._versions[namespace] = make_version()

    async def close(self) -> None:
        """Nothing is held."""

    def _notice_writes(self) -> None:
        """Renew everything when anybody committed since the last look.

        One look is enough for all that ask within one turn of the event loop: whatever they ask
        was there before the turn began.
        """
        if self._is_fresh:
            return
        self._is_fresh = True
        asyncio.get_running_loop().call_soon(self._expire)
        try:
            revision = self._revision()
        except StoreError:
            # Whoever asks next hears of it from the store itself.
            revision = object()
        if revision != self._seen:
            self._seen = revision
            self._first = make_version()
            self._versions.clear()

    def _expire(self) -> None:
        self._is_fresh = False
