"""New SQLite stores, each a copy of one that a test process makes once.

Running all migrations takes longer than what most tests do with a store.
"""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
import uuid
from contextlib import closing
from pathlib import Path

from indexing.store import STORE_FILE, open_store
from indexing.store.interface import Store
from tests.places import Place
from tests.servers.folder import memory

_made: list[bytes] = []


async def open_new_store(place: Place) -> Store:
    """Open the store in that place, as `open_store` does."""
    if isinstance(place, Path) and not (place / STORE_FILE).exists():
        await copy_new_store(place)
    return await open_store(place)


async def copy_new_store(folder: Path) -> None:
    """Put a new store in that folder, with an identity of its own."""
    if not _made:
        _made.append(await _make())
    _write(folder, _made[0])


def _write(folder: Path, content: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / STORE_FILE
    path.touch(mode=0o600)
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "UPDATE meta SET value = ? WHERE name = ?",
            [(uuid.uuid4().hex.encode(), "store_id"), (secrets.token_bytes(32), "cursor_secret")],
        )


async def _make() -> bytes:
    """The file of a new store."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        store = await open_store(Path(folder))
        # It moves the write-ahead log into the file.
        await store.close()
        return (Path(folder) / STORE_FILE).read_bytes()
