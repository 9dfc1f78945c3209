"""Generations of one process, which learns from the store what others write, if that tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from indexing.errors import StoreError
from service.cache.backend import Look, Shelf, Tokens, make_token
from service.cache.keys import LIFETIME

Revision = Callable[[], Hashable | None]


class LocalShelf(Shelf):
    """The cache's generations where there is no Redis: no value is shared.

    `revision` is `Reader.revision`. Where it tells nothing, other processes' writes show when the
    values that they change have had their time.
    """

    def __init__(self, revision: Revision) -> None:
        self.copy_lifetime = LIFETIME
        self._revision = revision
        self._seen: Hashable | None = None
        self._is_fresh = False
        self._first = make_token()
        self._renewed: dict[str, bytes] = {}

    @property
    def status(self) -> None:
        return None

    async def read_tokens(self, generations: tuple[str, ...]) -> Tokens | None:
        self._notice_writes()
        renewed, first = self._renewed, self._first
        # Lists are made faster than generators are run, and every request comes by here.
        return tuple([renewed.get(generation, first) for generation in generations])

    async def look(self, generations: Sequence[str], names: Sequence[str]) -> Look:  # noqa: ARG002 - no value is here
        return Look(await self.settle(generations))

    async def settle(self, generations: Sequence[str]) -> Mapping[str, bytes]:
        self._notice_writes()
        return {name: self._renewed.get(name, self._first) for name in generations}

    def open(self, name: str, tokens: Tokens, sealed: bytes) -> bytes | None:  # noqa: ARG002 - no value is here
        return None

    def put(self, name: str, tokens: Tokens, payload: bytes, seconds: float) -> None:
        """Hold nothing: what this process keeps is enough."""

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:  # noqa: ARG002 - no count is here
        return None

    async def renew(self, generations: Iterable[str]) -> None:
        for generation in generations:
            self._renewed[generation] = make_token()

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
            self._first = make_token()
            self._renewed.clear()

    def _expire(self) -> None:
        self._is_fresh = False
