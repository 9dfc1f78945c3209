"""What users ask for is read with the short timeout, so that a node that hangs is left in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.failures import FailureQuery
from indexing.models.listed_repositories import RepositoryQuery, RepositorySort
from indexing.models.listed_runs import RunQuery
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineRequest
from indexing.models.trends import DayQuery
from indexing.store.elasticsearch.client.connection import READING, Connection
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ALL

HINGE = derive_test_id(WIDGETS, "hinge")
DAYS = DayQuery(WIDGETS, day_of(NOON) - 30, day_of(NOON) + 1)
READS: dict[str, Callable[[ElasticsearchStore], Awaitable[Any]]] = {
    "failures": lambda store: store.list_failures(FailureQuery(WIDGETS, HINGE), Anchor(), 10),
    "repositories by name": lambda store: store.list_owned(
        RepositoryQuery("acme", NOON), Anchor(), 10
    ),
    "repositories by health": lambda store: store.list_owned(
        RepositoryQuery("acme", NOON, sort=RepositorySort.WORST), Anchor(), 10
    ),
    "runs": lambda store: store.list_runs(RunQuery(WIDGETS), Anchor(), 10),
    "quarantined tests": lambda store: store.search_tests(
        replace(ALL, quarantined=True, now=NOON), Anchor(), 10
    ),
    "quarantines": lambda store: store.list_quarantines(
        QuarantineQuery(WIDGETS, NOON), Anchor(), None
    ),
    "changes of quarantines": lambda store: store.list_quarantine_changes(
        WIDGETS, NOON, Anchor(), 10
    ),
    "test": lambda store: store.get_test(WIDGETS, HINGE),
    "days": lambda store: store.sum_days(DAYS),
    "health by day": lambda store: store.count_health(DAYS),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
async def test_a_read_waits_for_no_node_for_long(
    store: ElasticsearchStore,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[ElasticsearchStore], Awaitable[Any]],
) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    await store.write_results(WIDGETS, {run: make_executions(run, [("hinge", Conclusion.FAILED)])})
    await store.refresh_tests(NOON)
    await store.add_quarantine(WIDGETS, QuarantineRequest("hinge", "stuck"), NOON)
    seconds: list[float] = []
    send = Connection.request

    async def note(connection: Connection, *about: Any, **options: Any) -> Any:
        seconds.append((options.get("timeouts") or connection.reading).total)
        return await send(connection, *about, **options)

    monkeypatch.setattr(Connection, "request", note)
    await read(store)
    assert seconds
    assert max(seconds) <= READING.total
