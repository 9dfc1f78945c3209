"""The table `meta`: single values of the whole store, each a row with a name."""

from __future__ import annotations

import sqlite3


def read_value(connection: sqlite3.Connection, name: str) -> bytes | None:
    """Return the value of that name; `None` if there is none."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def read_number(connection: sqlite3.Connection, name: str) -> int | None:
    """Return the number that `write_number` stored under that name; `None` if there is none."""
    value = read_value(connection, name)
    return None if value is None else int(value)


def write_value(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Store a value under that name in place of any other."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?1, ?2)"
        " ON CONFLICT (name) DO UPDATE SET value = ?2",
        (name, value),
    )


def write_number(connection: sqlite3.Connection, name: str, number: int) -> None:
    """Store a number as decimal digits."""
    write_value(connection, name, str(number).encode())


def remove_value(connection: sqlite3.Connection, name: str) -> None:
    """Delete the value of that name, if there is one."""
    connection.execute("DELETE FROM meta WHERE name = ?", (name,))
