"""Loads events out of lines into a store, batch by batch; a rerun ends in the same state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from indexing.accepted_times import check_accepted
from indexing.errors import InvalidValueError
from indexing.events.parsing import ParsedEvent, RefusedEventError, parse_event
from indexing.ingest.counts import IngestCount, Progress
from indexing.ingest.dead_letter import RefusedLine
from indexing.ingest.lines import Line
from indexing.names import RepositoryName
from indexing.store.interface import EventOutcome, Writer

# A commit for fewer events costs more than the events do; more of them gain nothing and hold
# the store's lock for longer.
BATCH_EVENTS: Final = 1_000
# An event in memory is about ten times its line, so that a batch stays below 40 MB.
BATCH_BYTES: Final = 4 * 1024 * 1024

# Checking this many events takes a few milliseconds; then whoever else is on the loop has a turn.
LINES_PER_TURN: Final = 64

# A line of this length can take as long as all of those; longer ones are checked in a thread.
QUICK_LINE_BYTES: Final = 64 * 1024

# One call per repository saves a look-up per event, but a file may name millions of them.
REMEMBERED_REPOSITORIES: Final = 10_000

_JSON_BLANKS: Final = b" \t\r\n"
_REFUSALS: Final = {
    EventOutcome.CONFLICT: "another event is stored under the same repository, received_at and id",
    EventOutcome.REFUSED: "the store cannot hold it",
}


async def ingest_events(
    writer: Writer,
    lines: Iterable[Line],
    *,
    source: str,
    refuse: Callable[[RefusedLine], None],
    clock: Callable[[], datetime],
    progress: Progress | None = None,
    only: RepositoryName | None = None,
) -> IngestCount:
    """Store the event of each line; empty lines are passed over.

    Every refused line goes to `refuse`, and the rest lands. `source` is what such lines are said
    to come from. `clock` gives the time, in UTC, that no event may be dated more than a day ahead
    of. With `only`, events of any other repository are refused too. `progress` is told after each
    batch.

    Raises:
        StoreError: the store gave up; the batches before this one are stored.
    """
    ingest = _Ingest(writer, source, refuse, clock, only)
    for line in lines:
        await ingest.take(line)
        if ingest.is_full:
            await ingest.flush()
            if progress is not None:
                progress(lines=line.number, offset=line.offset + len(line.data))
        elif line.number % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
    await ingest.flush()
    return ingest.count


class _Ingest:
    """One load under way: the batch, and what became of the lines before it."""

    def __init__(
        self,
        writer: Writer,
        source: str,
        refuse: Callable[[RefusedLine], None],
        clock: Callable[[], datetime],
        only: RepositoryName | None,
    ) -> None:
        self.count = IngestCount()
        self._writer = writer
        self._source = source
        self._refuse = refuse
        self._clock = clock
        self._only = only
        self._batch: list[tuple[Line, ParsedEvent]] = []
        self._bytes = 0
        self._spellings: dict[str, RepositoryName] = {}

    @property
    def is_full(self) -> bool:
        return len(self._batch) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES

    async def take(self, line: Line) -> None:
        """Add the line's event to the batch, or refuse it."""
        if line.defect is None and not line.data.strip(_JSON_BLANKS):
            return
        self.count += IngestCount(read=1)
        try:
            if len(line.data) > QUICK_LINE_BYTES:
                event = await asyncio.to_thread(self._parse, line)
            else:
                event = self._parse(line)
        except RefusedEventError as error:
            self._refuse_line(line, error.reasons)
        else:
            self._batch.append((line, event))
            self._bytes += len(line.data)

    async def flush(self) -> None:
        """Store the batch."""
        events = [event.finish(await self._spell(event.repository)) for _, event in self._batch]
        if not events:
            return
        outcomes = await self._writer.write_events(events)
        for (line, _), outcome in zip(self._batch, outcomes, strict=True):
            if outcome in _REFUSALS:
                self._refuse_line(line, (_REFUSALS[outcome],))
        self.count += IngestCount(
            written=outcomes.count(EventOutcome.WRITTEN),
            unchanged=outcomes.count(EventOutcome.UNCHANGED),
        )
        self._batch.clear()
        self._bytes = 0

    def _parse(self, line: Line) -> ParsedEvent:
        if line.defect is not None:
            raise RefusedEventError((line.defect,))
        event = parse_event(line.data)
        if self._only is not None and event.repository.key != self._only.key:
            raise RefusedEventError((f"repository: only events of {self._only} are taken here",))
        try:
            check_accepted(event.key.received_at, self._clock())
        except InvalidValueError as error:
            raise RefusedEventError((f"received_at: {error}",)) from error
        return event

    async def _spell(self, name: RepositoryName) -> RepositoryName:
        """The spelling of a repository that the store goes by."""
        known = self._spellings.get(name.key)
        if known is None:
            if len(self._spellings) >= REMEMBERED_REPOSITORIES:
                self._spellings.clear()
            known = (await self._writer.ensure_repository(name)).name
            self._spellings[name.key] = known
        return known

    def _refuse_line(self, line: Line, reasons: tuple[str, ...]) -> None:
        self.count += IngestCount(refused=1)
        self._refuse(RefusedLine(self._source, line, reasons))
