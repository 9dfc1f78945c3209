"""Results that came as spans into a store. No span is read here."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from datetime import datetime

from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import BATCH_EXECUTIONS
from indexing.models.executions import Execution, Run
from indexing.names import RepositoryName
from indexing.store.interface import Writer


async def ingest_results(
    writer: Writer,
    repository: RepositoryName,
    executions: AsyncIterable[tuple[Run, Execution]],
    *,
    clock: Callable[[], datetime],
) -> IngestCount:
    """Write the executions, which come run by run, and refresh what is derived of them.

    Makes the repository known where there is anything to write. Repeating a call, or one that was
    broken off, ends in the same state.

    Raises:
        StoreError: the store failed; what was written before stays.
    """
    count = IngestCount()
    current: Run | None = None
    batch: list[Execution] = []

    async def flush() -> None:
        nonlocal count
        if current is None:
            return
        if not count.read:
            await writer.ensure_repository(repository)
        done = await writer.write_executions(repository, current, batch)
        count += IngestCount(len(batch), done.written, done.unchanged)

    async for run, execution in executions:
        if run != current or len(batch) == BATCH_EXECUTIONS:
            await flush()
            current, batch = run, []
        batch.append(execution)
    await flush()
    if count.read:
        await writer.refresh_tests(clock(), repository=repository)
    return count
