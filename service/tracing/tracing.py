"""The traces of one process, over a provider of the SDK."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from indexing.store.interface import Store
from service.cache.backend import CacheBackend
from service.http.unparsed import RepeatedRequests
from service.tracing.cache_spans import TracedBackend
from service.tracing.repeated_requests import TracedRepeatedRequests
from service.tracing.request_spans import RequestSpans
from service.tracing.store_spans import trace_store

# How long the end of the process waits for the collector.
FLUSH_SECONDS: Final = 1.0

_SCOPE: Final = "mergewatch"

_log = logging.getLogger(__name__)


class Tracing:
    """Wraps what is traced; with `takes_parents`, requests continue their clients' traces.

    The provider is not made the global one, so that libraries add no spans of their own, whose
    attributes are not under our control.
    """

    def __init__(self, provider: TracerProvider, *, takes_parents: bool = True) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SCOPE)
        self.requests = RequestSpans(self._tracer, takes_parents=takes_parents)

    @property
    def resource(self) -> Resource:
        """The attributes of this process in every span."""
        return self._provider.resource

    def trace_store(self, store: Store, system: str) -> Store:
        """Return the same store, traced; `system` is the name of the database."""
        return trace_store(store, self._tracer, system)

    def trace_backend(self, backend: CacheBackend) -> CacheBackend:
        """Return the same cache backend, traced if it uses a server."""
        return backend if backend.status is None else TracedBackend(backend, self._tracer)

    def trace_repeated(self, known: RepeatedRequests) -> RepeatedRequests:
        """Return the cache of repeated requests, traced."""
        return TracedRepeatedRequests(self.requests, known)

    async def close(self) -> None:
        """Export what is left, for at most `FLUSH_SECONDS`."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            # The loop is closed if this took too long.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        # A daemon thread: the process would wait for the thread of a pool at its end.
        threading.Thread(target=shut_down, daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await ended.wait()
        except TimeoutError:
            _log.warning("the last traces were not exported in time")
