"""Loads events from lines into a store in batches; repeating a load changes nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from indexing.accepted_times import check_accepted
from indexing.ahead import one_ahead
from indexing.clocks import Clock
from indexing.errors import InvalidValueError
from indexing.events.parsing import ParsedEvent, RefusedEventError, parse_event
from indexing.ingest.counts import IngestCount, Progress
from indexing.ingest.dead_letter import RefusedLine
from indexing.ingest.lines import Line
from indexing.names import RepositoryName
from indexing.store.interface import EventOutcome, Writer
from indexing.yielding import LoopYielder

# The size of a batch of a command. Both stores divide it, so that each write takes a bounded time.
BATCH_EVENTS: Final = 4_000
# A batch in the service is smaller: preparing it blocks the event loop, which serves other tenants.
SERVED_BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 4 * 1024 * 1024

# The most repositories whose stored spelling is cached, to save a look-up for each event. A file
# may name millions.
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
    clock: Clock,
    progress: Progress | None = None,
) -> IngestCount:
    """Store the event of each line; skip empty lines.

    `refuse` is called with every refused line; the others are stored. `source` names the origin of
    the lines in refusals. `clock` returns the time, in UTC; no event may be dated more than a day
    after it. `progress` is called after each batch.

    Raises:
        StoreError: the store failed; earlier batches are stored.
    """
    load = EventLoad(writer, source, refuse, batch_events=BATCH_EVENTS)
    batches = _read_batches(load, lines, clock)
    # The store writes one batch while the next one is read.
    async with aclosing(one_ahead(batches)) as ahead:
        async for batch in ahead:
            await load.store(batch)
            if progress is not None:
                end = batch.end
                progress(lines=end.number, offset=end.offset + len(end.data))
    await load.flush()
    return load.count


async def _read_batches(
    load: EventLoad, lines: Iterable[Line], clock: Clock
) -> AsyncGenerator[Batch]:
    """Add the event of each line to the load; yield each full batch."""
    yielder = LoopYielder()
    for line in lines:
        if not is_blank(line):
            try:
                event = read_event(line, clock())
            except RefusedEventError as error:
                load.refuse(line, error.reasons)
            else:
                load.add(line, event)
        if load.is_full:
            yield load.take()
        await yielder.yield_if_due()


def is_blank(line: Line) -> bool:
    """Return whether the line is empty."""
    return line.defect is None and not line.data.strip(_JSON_BLANKS)


def read_event(line: Line, now: datetime, only: RepositoryName | None = None) -> ParsedEvent:
    """Parse the event of a line; with `only`, it must belong to that repository.

    It may be dated at most a day after `now`.

    Raises:
        RefusedEventError: the line has no event that can be stored.
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


@dataclass(slots=True)
class Batch:
    """Events to store together, each with its line, and the size of all their bodies in bytes."""

    events: list[tuple[Line, ParsedEvent]] = field(default_factory=list)
    size: int = 0

    @property
    def end(self) -> Line:
        """The line of the last event."""
        return self.events[-1][0]


class EventLoad:
    """A load in progress: the batch that is being filled, and the counts so far."""

    def __init__(
        self,
        writer: Writer,
        source: str,
        refuse: Callable[[RefusedLine], None],
        *,
        batch_events: int = SERVED_BATCH_EVENTS,
    ) -> None:
        """`source` and `refuse` are as in `ingest_events`; a batch has at most `batch_events`."""
        self.count = IngestCount()
        self._batch_events = batch_events
        self._writer = writer
        self._source = source
        self._refuse = refuse
        self._batch = Batch()
        self._spellings: dict[str, RepositoryName] = {}

    @property
    def is_full(self) -> bool:
        """Whether to store the batch before adding more to it."""
        batch = self._batch
        return len(batch.events) >= self._batch_events or batch.size >= BATCH_BYTES

    def add(self, line: Line, event: ParsedEvent) -> None:
        """Add the line's event to the batch; it is counted when it is stored."""
        self._batch.events.append((line, event))
        self._batch.size += len(event.body)

    def refuse(self, line: Line, reasons: tuple[str, ...]) -> None:
        """Count a line without a storable event, and report it."""
        self.count += IngestCount(read=1)
        self._refuse_line(line, reasons)

    def refuse_unreported(self, count: int) -> None:
        """Count lines without storable events, and report none of them."""
        self.count += IngestCount(read=count, refused=count)

    def take(self) -> Batch:
        """Return the batch for `store`, and begin another one."""
        batch, self._batch = self._batch, Batch()
        return batch

    async def flush(self) -> None:
        """Store the batch that is being filled.

        Raises:
            StoreError: the store failed; earlier batches are stored.
        """
        await self.store(self.take())

    async def store(self, batch: Batch) -> None:
        """Store a batch; more events may be added to the next one meanwhile.

        Raises:
            StoreError: the store failed; earlier batches are stored.
        """
        events = [event.finish(await self._spell(event.repository)) for _, event in batch.events]
        if not events:
            return
        outcomes = await self._writer.write_events(events)
        for (line, _), outcome in zip(batch.events, outcomes, strict=True):
            if outcome in _REFUSALS:
                self._refuse_line(line, (_REFUSALS[outcome],))
        self.count += IngestCount(
            read=len(events),
            written=outcomes.count(EventOutcome.WRITTEN),
            unchanged=outcomes.count(EventOutcome.UNCHANGED),
        )

    async def _spell(self, name: RepositoryName) -> RepositoryName:
        """Return the spelling of a repository that the store uses."""
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
