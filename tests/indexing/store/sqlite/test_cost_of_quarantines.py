"""What changes of quarantines read in SQLite, with any number of executions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from indexing.store.sqlite import quarantines
from tests.builders import NOON, WIDGETS, after
from tests.contracts.quarantining import add, load


async def test_a_new_reason_reads_no_executions(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    await add(store)
    await load(store, "P" * 10, at=1)
    await store.close()
    statements: list[str] = []
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        connection.set_trace_callback(statements.append)
        quarantine, is_new = quarantines.add_quarantine(
            connection, WIDGETS, QuarantineRequest("t", "flaps again"), after(days=1)
        )
    assert (quarantine.reason, quarantine.is_recovered, is_new) == ("flaps again", True, False)
    assert quarantine.key.created_at == NOON
    assert [each for each in statements if "executions" in each] == []
