"""Opens a store: one interface, one folder for each backend, chosen here alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from indexing.store.interface import Store

# The file name of the embedded store, within its folder.
STORE_FILE: Final = "mergewatch.db"


@dataclass(frozen=True, slots=True)
class ElasticsearchPlace:
    """The indices with this prefix, in the cluster that any of `urls` belongs to."""

    urls: tuple[str, ...] = field(repr=False)
    prefix: str
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class StoreVersions:
    """The version of an existing store, and the newest that this program knows."""

    stored: int
    known: int


async def open_store(place: Path | ElasticsearchPlace) -> Store:
    """Open the embedded store in that folder, or the store in that cluster.

    A missing store is created; an older version is migrated.

    Raises:
        StoreError: the folder, its file, or the cluster cannot be used; the text says why.
    """
    # Import a backend only when it is used.
    if isinstance(place, ElasticsearchPlace):
        from indexing.store.elasticsearch.store import ElasticsearchStore

        return await ElasticsearchStore.open(place.urls, prefix=place.prefix, api_key=place.api_key)
    from indexing.store.sqlite.store import SqliteStore

    return await SqliteStore.open(place / STORE_FILE)


def name_backend(place: Path | ElasticsearchPlace) -> str:
    """Return what `StoreStatus` calls the backend of a store in that place."""
    return "elasticsearch" if isinstance(place, ElasticsearchPlace) else "sqlite"


async def find_versions(place: Path | ElasticsearchPlace) -> StoreVersions | None:
    """Read the version of the store without changing it; return `None` if there is no store.

    Raises:
        StoreError: it cannot be read.
    """
    if isinstance(place, ElasticsearchPlace):
        from indexing.store.elasticsearch.indices.layout import LAYOUT_VERSION
        from indexing.store.elasticsearch.indices.setup import find_version

        version = await find_version(place.urls, prefix=place.prefix, api_key=place.api_key)
        return None if version is None else StoreVersions(version, LAYOUT_VERSION)
    from indexing.store.sqlite.schema import SCHEMA_VERSION, find_schema_version

    stored = find_schema_version(place / STORE_FILE)
    return None if stored is None else StoreVersions(stored, SCHEMA_VERSION)


async def create_lost_parts(place: Path | ElasticsearchPlace) -> list[str]:
    """Create the indices that were deleted from an existing store, empty; return their names.

    Raises:
        StoreError: the cluster cannot be used.
    """
    if not isinstance(place, ElasticsearchPlace):
        return []
    from indexing.store.elasticsearch.indices.setup import create_lost

    return await create_lost(place.urls, prefix=place.prefix, api_key=place.api_key)
