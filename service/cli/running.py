"""Runs the work of a command on the configured store."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.store import StoreVersions, find_versions, open_store
from indexing.store.interface import Store
from service.cache.invalidation import InvalidatingStore
from service.cache.opening import LazyInvalidator
from service.cli.garbage_collection import collecting_rarely
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


def with_existing_store(
    work: Callable[[Store], Awaitable[T]], settings: Settings | None = None
) -> T:
    """Do the same as `with_store`, for commands that have nothing to do without a store.

    Raises:
        click.ClickException: there is no store.
        SettingsError: a setting is invalid.
        StoreError: the store cannot be used.
    """
    chosen = settings or load_settings()
    require_store(chosen)
    return with_store(work, chosen)


def require_store(settings: Settings) -> StoreVersions:
    """Return the versions of the store; fail if there is none, because opening it would create it.

    A store in the wrong place would look as if there was nothing to do.

    Raises:
        click.ClickException: there is no store.
        StoreError: the store cannot be read.
    """
    versions = asyncio.run(find_versions(settings.store))
    if versions is None:
        where = f"there is no store in {settings.data_dir}"
        if settings.elasticsearch_url:
            where = f"Elasticsearch has no store with the prefix {settings.elasticsearch_prefix}"
        raise click.ClickException(f"{where}; `mergewatch index create` creates it")
    return versions


async def require_repository(store: Store, name: RepositoryName) -> Repository:
    """Return a repository; fail if it is not known, because its name may be mistyped.

    Raises:
        click.ClickException: the repository is not known.
        StoreError: the store cannot be read.
    """
    found = await store.find_repository(name)
    if found is None:
        raise click.ClickException(f"the repository {name} is not known")
    return found
