"""Runs the work of a command on the configured store."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from indexing.store import open_store
from indexing.store.interface import Store
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import LazyInvalidator
from service.cli.collecting import collecting_rarely
from service.config.redis_files import check_redis_files
from service.config.settings import Settings, load_settings

T = TypeVar("T")


def with_store(work: Callable[[Store], Awaitable[T]], settings: Settings | None = None) -> T:
    """Open the store, run `work` on it, and close the store.

    Raises:
        SettingsError: a setting is invalid.
        StoreError: the store cannot be used.
    """
    chosen = settings or load_settings()
    # Before any write, because a write that reaches no cache leaves old answers in it.
    check_redis_files(chosen)

    async def run() -> T:
        # asyncio's SIGINT handler needs the event loop, which a blocking read can hold forever.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        store = await open_store(chosen.store)
        invalidator = LazyInvalidator(chosen, store)
        try:
            # Without Redis there is no shared cache to invalidate.
            return await work(InvalidatingStore(store, invalidator) if chosen.redis_url else store)
        finally:
            await invalidator.close()
            await store.close()

    with collecting_rarely():
        return asyncio.run(run())


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
