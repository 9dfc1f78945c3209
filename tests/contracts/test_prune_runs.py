"""One process at a time replaces the record of the last prune."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from indexing.models.executions import Conclusion
from indexing.pruning import PruneRun
from indexing.store import recorded_prune
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, after, make_executions, make_run


def begun(name: str) -> PruneRun:
    return PruneRun(name, began_at=NOON, alive_at=NOON)


async def test_a_new_store_has_no_record(store: Store) -> None:
    assert await store.get_prune_run() is None


async def test_a_record_is_read_as_it_was_written(store: Store) -> None:
    run, ended = begun("a"), begun("a").ended(after(minutes=3), 5, 7)
    assert await store.replace_prune_run(None, run)
    assert await store.get_prune_run() == run
    assert await store.replace_prune_run(run, ended)
    assert await store.get_prune_run() == ended
    assert await store.replace_prune_run(ended, begun("b").stopped())
    assert await store.get_prune_run() == begun("b").stopped()


async def test_a_record_that_was_replaced_meanwhile_stays(store: Store) -> None:
    assert await store.replace_prune_run(None, begun("a"))
    assert not await store.replace_prune_run(None, begun("b"))
    assert not await store.replace_prune_run(begun("a").stopped(), begun("b"))
    assert await store.get_prune_run() == begun("a")


async def test_one_of_many_that_have_seen_the_same_begins(store: Store) -> None:
    for seen in (None, begun("0")):
        if seen is not None:
            last = await store.get_prune_run()
            assert await store.replace_prune_run(last, seen)
        won = await asyncio.gather(
            *(store.replace_prune_run(seen, begun(str(number))) for number in range(1, 9))
        )
        assert won.count(True) == 1
        assert await store.get_prune_run() == begun(str(1 + won.index(True)))


async def test_a_run_is_recorded_with_what_it_removed(store: Store) -> None:
    await store.ensure_repository(WIDGETS)
    run = make_run()
    executions = make_executions(run, [("a", Conclusion.PASSED), ("b", Conclusion.FAILED)])
    await store.write_results(WIDGETS, {run: executions})
    newest = max(execution.finished_at for execution in executions)
    moment = newest + timedelta(days=1)
    recorded = await recorded_prune.begin(store, moment)
    assert await store.get_prune_run() == recorded
    count = await recorded_prune.prune(store, recorded, moment, lambda: moment)
    assert count.executions == 2
    assert await store.get_prune_run() == recorded.ended(moment, 0, 2)


async def test_a_run_that_was_replaced_records_nothing(store: Store) -> None:
    first = await recorded_prune.begin(store, NOON)
    second = await recorded_prune.begin(store, after(minutes=1))
    await recorded_prune.prune(store, first, NOON, lambda: NOON)
    assert await store.get_prune_run() == second
