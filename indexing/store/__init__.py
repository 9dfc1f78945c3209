"""Where everything is kept: one interface, one backend a folder, chosen in one place."""

from __future__ import annotations

from pathlib import Path

from indexing.store.interface import Store


async def open_store(data_dir: Path) -> Store:
    """Open the embedded store in that folder, made where it is missing.

    Raises:
        StoreError: the folder or the file in it cannot be used; the text says why.
    """
    from indexing.store.sqlite.store import SqliteStore

    return await SqliteStore.open(data_dir / "mergewatch.db")
