"""Where everything is kept: one interface, one backend a folder, chosen in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from indexing.store.interface import Store


@dataclass(frozen=True, slots=True)
class ElasticsearchPlace:
    """The indices that begin with `prefix` in the cluster that any of `urls` belongs to."""

    urls: tuple[str, ...] = field(repr=False)
    prefix: str
    api_key: str | None = field(default=None, repr=False)


async def open_store(place: Path | ElasticsearchPlace) -> Store:
    """Open the embedded store in that folder, or the one in that cluster; made where missing.

    Raises:
        StoreError: the folder or the file in it, or the cluster, cannot be used; the text says why.
    """
    # A backend is imported by those who use it.
    if isinstance(place, ElasticsearchPlace):
        from indexing.store.elasticsearch.store import ElasticsearchStore

        return await ElasticsearchStore.open(place.urls, prefix=place.prefix, api_key=place.api_key)
    from indexing.store.sqlite.store import SqliteStore

    return await SqliteStore.open(place / "mergewatch.db")
