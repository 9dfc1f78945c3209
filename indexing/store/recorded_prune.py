"""Runs retention and keeps a record of the run in the store.

If another process replaces the record, the run goes on: two runs at once do no harm. Only the later
one is recorded.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from indexing.clocks import Clock
from indexing.errors import StoreUnavailableError
from indexing.pruning import RENEWED_EVERY, PruneRun
from indexing.store.interface import PruneCount, Steps, Store


def new_run(now: datetime) -> PruneRun:
    """Return a run that begins now, without recording it."""
    return PruneRun(uuid.uuid4().hex, began_at=now, alive_at=now)


async def begin(store: Store, now: datetime) -> PruneRun:
    """Record a new run; replace the record of any other run."""
    run = new_run(now)
    while not await store.replace_prune_run(await store.get_prune_run(), run):
        pass
    return run


async def change_run(store: Store, run_id: str, change: Callable[[PruneRun], PruneRun]) -> None:
    """Change the record of a run, unless another run has replaced it."""
    while True:
        seen = await store.get_prune_run()
        if seen is None or seen.id != run_id or await store.replace_prune_run(seen, change(seen)):
            return


async def prune(
    store: Store,
    run: PruneRun,
    before: datetime,
    clock: Clock,
    progress: Steps | None = None,
    rollups_before: datetime | None = None,
) -> PruneCount:
    """Prune the store as `Writer.prune` does; keep the record alive, and record the end."""
    renewing = asyncio.create_task(_keep_alive(store, run.id, clock))
    try:
        count = await store.prune(before, clock(), progress, rollups_before)
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
    await change_run(
        store, run.id, lambda seen: seen.ended(clock(), count.events, count.executions)
    )
    return count


async def _keep_alive(store: Store, run_id: str, clock: Clock) -> None:
    while True:
        await asyncio.sleep(RENEWED_EVERY.total_seconds())
        # If the store stays unavailable, the run itself fails with that error.
        with suppress(StoreUnavailableError):
            await change_run(store, run_id, lambda seen: seen.renewed(clock()))
