"""What changes of quarantines read in Elasticsearch, with any number of executions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from indexing import yielding
from indexing.errors import StoreUnavailableError
from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, covers_branch
from indexing.models.tests import TestQuery
from indexing.store.elasticsearch import evidence, quarantine_query, quarantines
from indexing.store.elasticsearch.client import search_queue
from indexing.store.elasticsearch.derived import observations
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.contracts.quarantining import FAILED, LATER, PASSED, add, listed, load
from tests.indexing.store.elasticsearch.inspection import cluster_of


def record_targets(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the targets of all requests from now on."""
    connection = cluster_of(store).connection
    request, targets = connection.request, list[str]()

    async def send(method: str, target: str, *about: Any, **options: Any) -> Any:
        targets.append(target)
        return await request(method, target, *about, **options)

    monkeypatch.setattr(connection, "request", send)
    return targets


async def test_a_new_reason_reads_no_executions(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await add(store)
    await load(store, "P" * 10, at=1)
    targets = record_targets(store, monkeypatch)
    quarantine = await add(store, at=after(days=1), reason="flaps again")
    assert (quarantine.reason, quarantine.is_recovered) == ("flaps again", True)
    assert quarantine.key.created_at == NOON
    assert [target for target in targets if "-executions-" in target] == []


async def test_an_end_reads_no_executions(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    quarantine = await add(store)
    await load(store, "PFP", at=1)
    assert await evidence_of(store, "t") == after(hours=2)
    targets = record_targets(store, monkeypatch)
    assert await store.remove_quarantine(WIDGETS, quarantine.key.id, after(days=1))
    assert [target for target in targets if "-executions-" in target] == []


async def test_evidence_that_is_in_no_roll_up_yet_is_searched_in_pages(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_ROWS_A_PAGE", 2)
    await store.ensure_repository(WIDGETS)
    await load(store, "F", at=-24 * 40)
    await write(store, [(hour, PASSED) for hour in range(5)])
    # All of the window's results, and one before it.
    assert await pages_read(store, monkeypatch) == 3
    assert await evidence_of(store, "t") is None
    await write(store, [(-3, FAILED), (-2, PASSED)])
    assert await evidence_of(store, "t") == after(hours=-3)
    assert await pages_read(store, monkeypatch) == 4
    await write(store, [(-1, PASSED)], needed_retries=True)
    assert await evidence_of(store, "t") == after(hours=-1)
    # A run that failed as a whole says nothing about its tests.
    broken = make_run("broken", commit="broken")
    results = [(name, FAILED) for name in ("t", *map(str, range(30)))]
    await store.write_results(WIDGETS, {broken: make_executions(broken, results, after(hours=9))})
    assert await evidence_of(store, "t") == after(hours=9)
    await store.refresh_tests(LATER)
    assert await evidence_of(store, "t") == after(hours=-1)
    await write(store, [(10, PASSED)])
    assert await evidence_of(store, "t") == after(hours=-1)
    await store.refresh_tests(LATER)
    assert await evidence_of(store, "t") == after(hours=-1)


@pytest.mark.parametrize(
    ("letters", "expected"), [("P" * 10, True), ("PPP" + "F" + "P" * 10, False)]
)
async def test_a_new_quarantine_reads_later_results_in_pages(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch, letters: str, expected: bool
) -> None:
    monkeypatch.setattr(observations, "_VERDICTS_A_PAGE", 3)
    await store.ensure_repository(WIDGETS)
    await load(store, letters, at=1)
    with monkeypatch.context() as patched:
        targets = record_targets(store, patched)
        assert (await add(store)).is_recovered is expected
    assert sum("-executions-" in each for each in targets) == len(letters) // 3 + 1
    assert (await add(store, branch="other")).is_recovered is False
    await load(store, "P" * 10, at=20, branch="other")
    recovered = {each.branch: each.is_recovered for each in await listed(store)}
    assert recovered == {None: expected, "other": True}


async def test_pages_of_later_results_wait_behind_expensive_searches(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_queue, "WAIT_SECONDS", 0.01)
    await store.ensure_repository(WIDGETS)
    await load(store, "P", at=1)
    async with cluster_of(store).searches.slot():
        # One page is as cheap as other reads.
        assert (await add(store, branch="other")).is_recovered is False
        monkeypatch.setattr(observations, "_VERDICTS_A_PAGE", 1)
        with pytest.raises(StoreUnavailableError, match="too many expensive searches"):
            await add(store)
        # Loads do not wait for readers.
        await load(store, "P", at=2)
    assert (await add(store)).is_recovered is False


async def test_long_lists_of_quarantines_take_turns(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_queue, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(quarantines, "_FEW", 2)
    query = QuarantineQuery(WIDGETS, LATER, branch="main")
    await store.ensure_repository(WIDGETS)
    await add(store)
    async with cluster_of(store).searches.slot():
        assert len((await store.list_quarantines(query, Anchor(), None)).rows) == 1
    for branch in ("ma*", "m*n"):
        await add(store, branch=branch)
    async with cluster_of(store).searches.slot():
        # A page needs no more rows than it has.
        assert (
            len((await store.list_quarantines(replace(query, branch=None), Anchor(), 1)).rows) == 1
        )
        with pytest.raises(StoreUnavailableError, match="too many expensive searches"):
            await store.list_quarantines(query, Anchor(), None)
    rows = (await store.list_quarantines(query, Anchor(), None)).rows
    assert {each.branch for each in rows} == {None, "ma*", "m*n"}


async def evidence_of(store: ElasticsearchStore, test_name: str) -> datetime | None:
    test_id = derive_test_id(WIDGETS, test_name)
    return await evidence.find_last_evidence(cluster_of(store), WIDGETS, test_id)


async def write(
    store: ElasticsearchStore, results: Sequence[tuple[float, Conclusion]], **rest: Any
) -> None:
    """Store results of the test `t`, each in a run of its own, which no refresh has judged yet."""
    written = {}
    for hours, conclusion in results:
        run = make_run(f"at {hours}", commit=f"at {hours}")
        written[run] = make_executions(run, [("t", conclusion)], after(hours=hours), **rest)
    await store.write_results(WIDGETS, written)


async def pages_read(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many pages of executions a look for evidence reads."""
    with monkeypatch.context() as patched:
        targets = record_targets(store, patched)
        await evidence_of(store, "t")
    return sum("-executions-" in each and "_search" in each for each in targets)


async def test_other_requests_are_answered_while_branches_are_matched(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure_repository(WIDGETS)
    await load(store, "P", at=1)
    for number in range(5):
        await add(store, branch=f"*{number}*")
    monkeypatch.setattr(yielding, "WORK_SECONDS", 0.0)
    loop, turn, matched = asyncio.get_running_loop(), 0, list[int]()
    counting = loop.call_soon(lambda: None)

    def count() -> None:
        nonlocal turn, counting
        turn += 1
        counting = loop.call_soon(count)

    def note(pattern: str | None, branch: str) -> bool:
        matched.append(turn)
        return covers_branch(pattern, branch)

    count()
    monkeypatch.setattr(quarantine_query, "covers_branch", note)
    try:
        for query in (
            TestQuery(WIDGETS, ("*",), quarantined=True, now=LATER),
            TestQuery(WIDGETS, ("*",), with_metrics=True, now=LATER),
        ):
            await store.search_tests(query, Anchor(), 10)
            assert len(matched) == 5
            assert set(Counter(matched).values()) == {1}
            matched.clear()
        quarantines = QuarantineQuery(WIDGETS, LATER, "main")
        await store.list_quarantines(quarantines, Anchor(), None)
    finally:
        counting.cancel()
    assert len(matched) == 5
    assert set(Counter(matched).values()) == {1}
