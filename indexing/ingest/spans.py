"""Loads results from spans into a store. Parses no spans."""

from __future__ import annotations

from collections.abc import AsyncIterable

from indexing.clocks import Clock
from indexing.errors import UnknownRepositoryError
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
    clock: Clock,
) -> IngestCount:
    """Write the executions, which come run by run, and refresh the derived data.

    Registers the repository if there is anything to write. The call is idempotent, even after an
    earlier one was interrupted.

    Raises:
        StoreError: the store failed; executions that were written before stay.
    """
    count = IngestCount()
    batch: dict[Run, list[Execution]] = {}
    size = 0

    async def flush() -> None:
        nonlocal count
        try:
            done = await writer.write_results(repository, batch)
        except UnknownRepositoryError:
            # Checking first would cost one more request for each upload.
            await writer.ensure_repository(repository)
            done = await writer.write_results(repository, batch)
        count += IngestCount(size, done.written, done.unchanged)

    async for run, execution in executions:
        batch.setdefault(run, []).append(execution)
        size += 1
        if size == BATCH_EXECUTIONS:
            await flush()
            batch, size = {}, 0
    if size:
        await flush()
    if count.read:
        await writer.refresh_tests(clock(), repository=repository)
    return count
