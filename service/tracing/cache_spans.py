"""Spans of the calls to Redis. Values that are found in the process's memory have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from opentelemetry.semconv.attributes.db_attributes import DB_OPERATION_NAME, DB_SYSTEM_NAME
from opentelemetry.trace import Tracer

from service.cache.backend import CacheBackend, SharedStatus, Snapshot, Versions
from service.cache.confirmed import ConfirmedValues
from service.tracing.spans import call_span, is_traced

_SYSTEM: Final = "redis"


class TracedBackend(CacheBackend):
    """A cache backend whose waits for Redis are traced.

    A span lasts as long as the request waits: one exchange with Redis serves many requests. The
    backend never raises, so no span fails; what was not found is read from the store.
    """

    def __init__(self, backend: CacheBackend, tracer: Tracer) -> None:
        self.copy_lifetime = backend.copy_lifetime
        self.is_shared = backend.is_shared
        self._backend = backend
        self._tracer = tracer

    @property
    def sees_all_writes(self) -> bool:
        return self._backend.sees_all_writes

    @property
    def status(self) -> SharedStatus | None:
        return self._backend.status

    @property
    def confirmed_values(self) -> ConfirmedValues | None:
        values = self._backend.confirmed_values
        return None if values is None else _TracedValues(values, self._span)

    def time_exchanges(self, observe: Callable[[float], None]) -> None:
        self._backend.time_exchanges(observe)

    def find_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        return self._backend.find_versions(namespaces)

    def known_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        return self._backend.known_versions(namespaces)

    async def read_versions(self, namespaces: tuple[str, ...]) -> Versions | None:
        with self._span("MGET"):
            return await self._backend.read_versions(namespaces)

    async def snapshot(self, namespaces: Sequence[str], names: Sequence[str]) -> Snapshot:
        with self._span("MGET"):
            return await self._backend.snapshot(namespaces, names)

    async def ensure_versions(self, namespaces: Sequence[str]) -> Mapping[str, bytes]:
        with self._span("SET"):
            return await self._backend.ensure_versions(namespaces)

    def verify(self, name: str, versions: Versions, signed: bytes) -> bytes | None:
        return self._backend.verify(name, versions, signed)

    def put(self, name: str, versions: Versions, payload: bytes, seconds: float) -> None:
        self._backend.put(name, versions, payload, seconds)

    async def count(self, name: str, seconds: float, more: int) -> tuple[int, float] | None:
        with self._span("INCRBY"):
            return await self._backend.count(name, seconds, more)

    async def invalidate(self, namespaces: Iterable[str]) -> None:
        with self._span("DEL"):
            await self._backend.invalidate(namespaces)

    async def close(self) -> None:
        await self._backend.close()

    def _span(self, command: str) -> AbstractContextManager[object]:
        if not is_traced():
            return nullcontext()
        attributes = {DB_SYSTEM_NAME: _SYSTEM, DB_OPERATION_NAME: command}
        return call_span(self._tracer, command, attributes)


class _TracedValues(ConfirmedValues):
    """Values whose waits for Redis are traced."""

    def __init__(
        self, values: ConfirmedValues, span: Callable[[str], AbstractContextManager[object]]
    ) -> None:
        self._values = values
        self._span = span

    async def keep(self, name: str, value: bytes, seconds: float) -> None:
        with self._span("SET"):
            await self._values.keep(name, value, seconds)

    async def find(self, name: str) -> bytes | None:
        with self._span("MGET"):
            return await self._values.find(name)

    async def drop(self, name: str) -> None:
        with self._span("DEL"):
            await self._values.drop(name)
