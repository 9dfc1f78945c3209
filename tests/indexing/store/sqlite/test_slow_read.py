"""A slow read leaves its connection as it was, whatever becomes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexing.store.sqlite.repositories import InterruptibleConnection
from indexing.store.sqlite.slow_read import ReadInterruptedError, SlowRead


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(
        tmp_path / "store.db", factory=InterruptibleConnection, isolation_level=None
    )
    opened.execute("CREATE TABLE numbers (n INTEGER)")
    yield opened
    opened.close()


def test_a_transaction_whose_end_is_interrupted_is_ended(connection: sqlite3.Connection) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT count(*) FROM numbers").fetchone()
        # What SQLite says if the interruption comes during the ROLLBACK.
        error = sqlite3.OperationalError("interrupted")
        error.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
        raise error

    with pytest.raises(ReadInterruptedError):
        SlowRead(work)(connection)
    assert not connection.in_transaction
    found = SlowRead(lambda again: again.execute("SELECT count(*) FROM numbers"))(connection)
    assert found.fetchone() == (0,)
    assert not connection.in_transaction
