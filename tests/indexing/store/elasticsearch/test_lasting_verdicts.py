"""Tests of an earlier release, whose documents do not say which flaky verdicts go on."""

from __future__ import annotations

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.trends import DayQuery
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of

TODAY = day_of(NOON)


async def run_commit(
    store: ElasticsearchStore, conclusion: Conclusion, day: int, job: str = "unit"
) -> None:
    run = make_run(str(day), commit="same", job=job)
    executions = make_executions(run, [("t", conclusion)], after(days=day))
    await store.write_results(WIDGETS, {run: executions})
    await store.refresh_tests(NOON)


async def test_a_test_of_an_earlier_release_is_computed_again_before_retention_reaches_it(
    store: ElasticsearchStore, other: ElasticsearchStore
) -> None:
    await store.ensure_repository(WIDGETS)
    for day, conclusion in ((-5, Conclusion.FAILED), (-4, Conclusion.PASSED)):
        await run_commit(store, conclusion, day)
    await run_commit(store, Conclusion.FAILED, -3)
    index, test = cluster_of(store).layout.tests, derive_test_id(WIDGETS, "t")
    place = f"/{index}/_doc/{test}?routing={routing_of(WIDGETS)}"
    source = (await ask(store, "GET", place))["_source"]
    del source["lasting_verdicts"]
    await ask(store, "PUT", f"{place}&refresh=true", source)
    await run_commit(other, Conclusion.PASSED, -1, job="another")
    await other.prune(after(days=-5, hours=1), NOON)
    counted = await other.count_flaky_verdicts(DayQuery(WIDGETS, TODAY - 9, TODAY))
    assert counted == {TODAY - 5: 1}
