"""Loads events out of lines into a store, batch by batch; a rerun ends in the same state."""

from __future__ import annotations

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
from indexing.pauses import Pause
from indexing.store.interface import EventOutcome, Writer

# A commit for fewer events costs more than the events do; more of them gain nothing and hold
# the store's lock for longer.
BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 4 * 1024 * 1024

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
    load = EventLoad(writer, source, refuse)
    pause = Pause()
    for line in lines:
        if not is_blank(line):
            try:
                event = read_event(line, clock(), only)
            except RefusedEventError as error:
                load.refuse(line, error.reasons)
            else:
                load.add(line, event)
        if load.is_full:
            await load.flush()
            if progress is not None:
                progress(lines=line.number, offset=line.offset + len(line.data))
        await pause.if_due()
    await load.flush()
    return load.count


def is_blank(line: Line) -> bool:
    """Whether there is nothing in the line."""
    return line.defect is None and not line.data.strip(_JSON_BLANKS)


def read_event(line: Line, now: datetime, only: RepositoryName | None = None) -> ParsedEvent:
    """Read the event of a line, which with `only` has to be of that repository.

    `now` is the time that it may be dated at most a day ahead of.

    Raises:
        RefusedEventError: there is none that can be stored.
    """
    if line.defect is not None:
        raise RefusedEventError((line.defect,))
    event = parse_event(line.data)
    if only is not None and event.repository.key != only.key:
        raise RefusedEventError((f"repository: only events of {only} are taken here",))
    try:
        check_accepted(event.key.received_at, now)
    except InvalidValueError as error:
        raise RefusedEventError((f"received_at: {error}",)) from error
    return event


class EventLoad:
    """One load under way: the batch, and what became of the lines before it."""

    def __init__(self, writer: Writer, source: str, refuse: Callable[[RefusedLine], None]) -> None:
        self.count = IngestCount()
        self._writer = writer
        self._source = source
        self._refuse = refuse
        self._batch: list[tuple[Line, ParsedEvent]] = []
        self._bytes = 0
        self._spellings: dict[str, RepositoryName] = {}

    @property
    def is_full(self) -> bool:
        """Whether the batch has to be stored before more is added to it."""
        return len(self._batch) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES

    def add(self, line: Line, event: ParsedEvent) -> None:
        """Add the line's event to the batch."""
        self.count += IngestCount(read=1)
        self._batch.append((line, event))
        self._bytes += len(event.body)

    def refuse(self, line: Line, reasons: tuple[str, ...]) -> None:
        """Count a line that holds no event that can be stored."""
        self.count += IngestCount(read=1)
        self._refuse_line(line, reasons)

    def refuse_untold(self, count: int) -> None:
        """Count so many lines that hold no event that can be stored, and tell of none."""
        self.count += IngestCount(read=count, refused=count)

    async def flush(self) -> None:
        """Store the batch.

        Raises:
            StoreError: the store gave up; what was flushed before is stored.
        """
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
