"""Results that came as spans into a store. No span is read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from indexing.ingest.counts import IngestCount
from indexing.ingest.junit import BATCH_EXECUTIONS
from indexing.models.executions import Execution, Run, split_results
from indexing.names import RepositoryName
from indexing.store.interface import Writer


async def ingest_results(
    writer: Writer,
    repository: RepositoryName,
    runs: Mapping[Run, Sequence[Execution]],
    *,
    clock: Callable[[], datetime],
) -> IngestCount:
    """Write the executions of each run, and refresh what is derived of them.

    Makes the repository known where there is anything to write. Repeating a call, or one that was
    broken off, ends in the same state.

    Raises:
        StoreError: the store failed; what was written before stays.
    """
    count = IngestCount()
    if not runs:
        return count
    await writer.ensure_repository(repository)
    for batch in split_results(runs, BATCH_EXECUTIONS):
        done = await writer.write_results(repository, batch)
        count += IngestCount(done.written + done.unchanged, done.written, done.unchanged)
    await writer.refresh_tests(clock(), repository=repository)
    return count
