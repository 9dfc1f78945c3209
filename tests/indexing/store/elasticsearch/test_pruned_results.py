"""Pruning judges results before it drops them, also those that arrive while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import WIDGETS, after, make_executions, make_run


async def test_an_old_failure_that_arrives_meanwhile_counts_before_it_is_dropped(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    for number, days in enumerate((-60, -1)):
        run = make_run(str(number), commit=f"c{number}")
        passed = make_executions(run, [("hinge", Conclusion.PASSED)], after(days=days))
        await store.write_results(WIDGETS, {run: passed})
    await store.refresh_tests(after())
    count = Connection.count

    async def write_meanwhile(connection: Connection, *about: Any) -> int:
        found = await count(connection, *about)
        run = make_run("late", commit="late")
        results = [("hinge", Conclusion.FAILED), ("latch", Conclusion.FAILED)]
        late = make_executions(run, results, after(days=-50))
        await store.write_results(WIDGETS, {run: late})
        return found

    monkeypatch.setattr(Connection, "count", write_meanwhile)
    await store.prune(after(days=-30), after())
    # Results of a test without older ones are dropped, too.
    for name in ("hinge", "latch"):
        found = await store.get_test(WIDGETS, derive_test_id(WIDGETS, name))
        assert found is not None
        assert found.health.first_failure_at == after(days=-50)
        assert found.health.failure_ratio == 0.0
