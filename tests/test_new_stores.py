"""The stores that tests copy are what the service itself creates."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from indexing.store import STORE_FILE, open_store
from tests.new_stores import copy_new_store, open_new_store

OWN = ("store_id", "cursor_secret")


def dump(folder: Path) -> tuple[list[object], list[bytes]]:
    """Everything in the store but its identity, and its identity."""
    file = folder / STORE_FILE
    with closing(sqlite3.connect(file)) as connection:
        found: list[object] = [
            connection.execute(f"PRAGMA {name}").fetchone()
            for name in ("user_version", "application_id", "journal_mode")
        ]
        schema = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        for name, kind, sql in schema:
            # What a virtual table holds is in tables of its own.
            if kind == "table" and name != "meta" and "VIRTUAL" not in sql:
                rows = connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608 - a schema's name
                found.append((name, rows.fetchall()))
        meta = dict(connection.execute("SELECT name, value FROM meta"))
    identity = [meta.pop(name) for name in OWN]
    return [file.stat().st_mode, *found, schema, meta], identity


async def test_a_copy_is_a_new_store_with_an_identity_of_its_own(tmp_path: Path) -> None:
    new, one, other = tmp_path / "new", tmp_path / "one", tmp_path / "other"
    await (await open_store(new)).close()
    for folder in (one, other):
        await copy_new_store(folder)
    expected, own = dump(new)
    identities = [own]
    for folder in (one, other):
        content, own = dump(folder)
        assert content == expected
        identities.append(own)
    for values in zip(*identities, strict=True):
        assert len(set(values)) == len(identities)
        assert len(set(map(len, values))) == 1


async def test_a_store_that_is_there_stays(tmp_path: Path) -> None:
    await copy_new_store(tmp_path)
    content = dump(tmp_path)
    await (await open_new_store(tmp_path)).close()
    assert dump(tmp_path) == content
