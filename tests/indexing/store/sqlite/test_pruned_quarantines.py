"""Quarantines whose results retention removes, while other processes go on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.store.sqlite import maintenance
from indexing.store.sqlite.connections import Connections
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.new_stores import open_new_store

PASSED = Conclusion.PASSED


async def test_an_upload_during_a_prune_leaves_a_recovered_test_recovered(tmp_path: Path) -> None:
    store = await open_new_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    await store.add_quarantine(WIDGETS, QuarantineRequest("t", "flaky"), NOON)
    for number in range(12):
        run = make_run(str(number), commit=f"c{number}")
        passed = make_executions(run, [("t", PASSED)], after(hours=1 + number))
        await store.write_results(WIDGETS, {run: passed})
    await store.refresh_tests(after(days=1))
    before, now = after(days=5), after(days=95)
    pruning = Connections.open(tmp_path / "mergewatch.db")
    step = partial(maintenance.prune_executions, before=before, limit=10_000)
    assert await pruning.write(step) == 12
    await pruning.close()
    run = make_run("new", commit="new")
    uploaded = make_executions(run, [("other", PASSED)], after(days=94))
    await store.write_results(WIDGETS, {run: uploaded})
    await store.refresh_tests(now, repository=WIDGETS)
    await store.prune(before, now)
    found = await store.list_quarantines(QuarantineQuery(WIDGETS, now), Anchor(), None)
    assert [each.is_recovered for each in found.rows] == [True]
    await store.close()
