"""One process' view of the cache: its own copies, what is shared, and one reading for all."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from service.cache.backend import Look, Shelf, Tokens
from service.cache.codecs import Form
from service.cache.keys import LIFETIMES, Question
from service.cache.lru import Lru
from service.cache.single_flight import Fills

V = TypeVar("V")

# Some 20,000 test details: more than a CI run of a large repository asks about.
COPIES_MAX_BYTES: Final = 64 * 1024 * 1024

# Values that were kept together do not all end together.
_JITTER_STEPS: Final = 100


@dataclass(frozen=True, slots=True)
class _Copy:
    value: object
    tokens: Tokens


class Cache:
    """What handlers ask through, by a `Visit` for each request."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._copies: Lru[_Copy] = Lru(COPIES_MAX_BYTES)
        self._fills = Fills()

    async def visit(self, generations: Sequence[str], questions: Sequence[Question]) -> Visit:
        """Begin a request that belongs to these generations and will ask these questions."""
        names = [asked.name for asked in questions if self._copies.find(asked.name) is None]
        return Visit(self, await self.shelf.look(generations, names), names)

    def find_copy(self, question: Question, tokens: Tokens) -> object | None:
        """The copy of this process, if it belongs to these tokens."""
        copy = self._copies.find(question.name)
        return copy.value if copy is not None and copy.tokens == tokens else None

    def open_shared(
        self, question: Question, tokens: Tokens, sealed: bytes | None, form: Form[V]
    ) -> V | None:
        """The shared value, if it is one of these tokens."""
        if sealed is None:
            return None
        payload = self.shelf.open(question.name, tokens, sealed)
        if payload is None:
            return None
        value = form.unpack(payload)
        self._keep_copy(question, tokens, value, form, LIFETIMES[question.kind])
        return value

    async def fill(
        self,
        question: Question,
        tokens: Tokens,
        read: Callable[[], Coroutine[Any, Any, V | None]],
        form: Form[V],
    ) -> V | None:
        """Read the store once for all who ask that now, and keep what it has."""

        async def run() -> V | None:
            began = time.monotonic()
            value = await read()
            if value is not None:
                # The time that the reading took counts: a write may have come right after it began.
                seconds = _lifetime_of(question) - (time.monotonic() - began)
                if seconds > 0:
                    self._keep_copy(question, tokens, value, form, seconds)
                    self.shelf.put(question.name, tokens, form.pack(value), seconds)
            return value

        # A reading that began before this request may have missed what is there by now: what is
        # absent makes no token void.
        return await self._fills.share((question.name, tokens), run, _is_there)

    async def read(
        self, question: Question, read: Callable[[], Coroutine[Any, Any, V | None]]
    ) -> V | None:
        """Read the store once for all who wait for a reading to begin, and keep nothing.

        Without tokens nothing tells whether what a reading under way will give is still true.
        """
        return await self._fills.share((question.name, None), read, lambda _: False)

    def _keep_copy(
        self, question: Question, tokens: Tokens, value: V, form: Form[V], seconds: float
    ) -> None:
        deadline = time.monotonic() + min(seconds, self.shelf.copy_lifetime)
        size = len(question.name) + form.size(value)
        self._copies.keep(question.name, _Copy(value, tokens), size, deadline)


def _is_there(value: object) -> bool:
    return value is not None


def _always(_value: object) -> bool:
    return True


class Visit:
    """What one request asks of the cache, by the generations as they were when it began."""

    __slots__ = ("_cache", "_looked_for", "_tokens", "_values")

    def __init__(self, cache: Cache, look: Look, looked_for: Sequence[str]) -> None:
        self._cache = cache
        self._tokens: dict[str, bytes] = dict(look.tokens)
        self._values: Mapping[str, bytes] = look.values
        self._looked_for = frozenset(looked_for)

    def tokens_of(self, generations: Sequence[str]) -> Tokens | None:
        """The tokens as they were when the request began, unless one is not known."""
        try:
            return tuple([self._tokens[generation] for generation in generations])
        except KeyError:
            return None

    async def find(
        self,
        question: Question,
        read: Callable[[], Coroutine[Any, Any, V | None]],
        form: Form[V],
        holds: Callable[[V], bool] = _always,
    ) -> V | None:
        """The value that is kept and holds, or what `read` gives, which is kept from then on.

        Nothing is kept of nothing.

        Raises:
            Whatever `read` raises, for all who wait for it.
        """
        tokens = self.tokens_of(question.generations)
        if tokens is None:
            tokens = await self._settle(question.generations)
        if tokens is None:
            return await self._cache.read(question, read)
        # What is kept under a name was made by the one form of its kind.
        copy = cast("V | None", self._cache.find_copy(question, tokens))
        if copy is not None and holds(copy):
            return copy
        sealed = await self._shared(question)
        value = self._cache.open_shared(question, tokens, sealed, form)
        if value is not None and holds(value):
            return value
        return await self._cache.fill(question, tokens, read, form)

    async def _shared(self, question: Question) -> bytes | None:
        if question.name in self._looked_for:
            return self._values.get(question.name)
        return (await self._cache.shelf.look((), (question.name,))).values.get(question.name)

    async def _settle(self, generations: Sequence[str]) -> Tokens | None:
        missing = [name for name in generations if name not in self._tokens]
        self._tokens.update(await self._cache.shelf.settle(missing))
        return self.tokens_of(generations)


def _lifetime_of(question: Question) -> float:
    """The lifetime of its kind or a little less, by its name."""
    step = zlib.crc32(question.name.encode()) % _JITTER_STEPS
    return LIFETIMES[question.kind] * (1 - step / (5 * _JITTER_STEPS))
