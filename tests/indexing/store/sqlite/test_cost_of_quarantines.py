"""What changes of quarantines read in SQLite, with any number of executions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from indexing.models.quarantines import QuarantineRequest
from indexing.store.sqlite import maintenance, notices, quarantines
from tests.builders import NOON, WIDGETS, after
from tests.contracts.quarantining import add, load
from tests.indexing.store.sqlite.steps import count_steps
from tests.new_stores import open_new_store
from tests.service.notifications.scripted import add_webhook


async def test_a_new_quarantine_takes_a_row_for_each_verdict(tmp_path: Path) -> None:
    rows = {}
    for repeated in (1, 20):
        folder = tmp_path / str(repeated)
        store = await open_new_store(folder)
        await store.ensure_repository(WIDGETS)
        for number in range(repeated):
            for commit in range(10):
                await load(store, "PS", at=1 + number, commit=str(commit))
        await store.close()
        with closing(sqlite3.connect(folder / "mergewatch.db")) as connection:
            rows[repeated] = 0

            def count(_: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
                rows[repeated] += 1  # noqa: B023 - called in this iteration only
                return row

            connection.row_factory = count
            request = QuarantineRequest("t", "flaps", "main")
            quarantine, _ = quarantines.add_quarantine(connection, WIDGETS, request, NOON)
        assert quarantine.is_recovered
    assert rows[1] == rows[20]


async def test_a_new_reason_reads_no_executions(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
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


async def test_a_step_of_notices_reads_only_the_quarantines_that_it_notifies_of(
    tmp_path: Path,
) -> None:
    """There may be thousands that expire at the same moment, or that were short from the start."""
    store = await open_new_store(tmp_path)
    await add_webhook(store)
    for number in range(40):
        for what, began in (("long", NOON), ("short", after(days=1))):
            request = QuarantineRequest(f"{what} {number}", "flaps", expires_at=after(hours=47))
            await store.add_quarantine(WIDGETS, request, began)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "mergewatch.db")) as connection:
        read: list[tuple[Any, ...]] = []

        def note(_: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
            read.append(row)
            return row

        connection.row_factory = note
        notified: list[int] = []
        while not notified or notified[-1]:
            notified.append(notices.notify_expiring(connection, after(days=1, hours=1), 15))
            # A row of each quarantine, and one of the webhooks.
            assert len(read) == 2 * notified[-1]
            read.clear()
        assert notified == [15, 15, 10, 0]


async def test_retention_reads_no_quarantines_of_other_tests(tmp_path: Path) -> None:
    costs = []
    for count in (1, 300):
        folder = tmp_path / str(count)
        store = await open_new_store(folder)
        await store.ensure_repository(WIDGETS)
        for number in range(count):
            request = QuarantineRequest(f"other {number}", "flaps")
            await store.add_quarantine(WIDGETS, request, NOON)
        await load(store, "P" * 10, at=1)
        await store.close()
        with closing(sqlite3.connect(folder / "mergewatch.db")) as connection:
            step = partial(maintenance.prune_executions, connection, after(days=20), 10)
            costs.append(count_steps(connection, step))
    assert costs[1] <= 1.05 * costs[0]
