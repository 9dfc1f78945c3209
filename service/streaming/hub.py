"""Polls the store for new events once for all open streams of the process.

A stream first reads by itself what it has missed. Once it has caught up with the poll it attaches
itself, and gets batches that all streams of a repository share.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

from indexing.errors import StoreError
from indexing.fairness import FairSemaphore
from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import Arrival, ArrivalKey, Arrivals
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.streaming.event_ids import EventIds
from service.streaming.response import BrokenStreamError
from service.streaming.unsent_events import NO_ROOM, UnsentEvents

POLL_SECONDS: Final = 0.5
# How many events are read at once, so that a burst takes several iterations of the event loop.
EVENTS_AT_ONCE: Final = 500
# How many streams are woken in one iteration of the event loop. Other requests wait while each of
# them writes to its socket.
STREAMS_AT_ONCE: Final = 10
# The pause after a read of what a stream has missed, so that other requests get half of the time.
PAUSE_SECONDS: Final = 0.01
# How far a stream may fall behind: some seconds of the heaviest load.
MAX_QUEUED_BYTES: Final = 4 * 1024 * 1024

TOO_SLOW: Final = "the client reads more slowly than events arrive"
ENDED: Final = "the stream has ended"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events of one repository, as they are sent; `text` is all `frames` joined."""

    keys: tuple[ArrivalKey, ...]
    frames: tuple[bytes, ...]
    text: bytes

    def after(self, key: ArrivalKey) -> bytes:
        """Return the text of the events after that place."""
        if self.keys[0] > key:
            return self.text
        return b"".join(f for k, f in zip(self.keys, self.frames, strict=True) if k > key)


class Subscription:
    """The events that one stream has yet to send."""

    def __init__(
        self,
        repository: RepositoryName,
        position: ArrivalKey,
        unsent: UnsentEvents,
    ) -> None:
        """`unsent` counts what it keeps, together with what other streams keep."""
        self.repository = repository
        self.repository_id = derive_repository_id(repository)
        # Events up to this place are left out: they were sent before the stream was attached.
        self.position = position
        # Why nothing more is sent.
        self._cut_off_by: str | None = None
        self._owner = repository.owner.lower()
        self._unsent = unsent
        # What is being sent: the text of the last batch that was received.
        self._sending: bytes | None = None
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._woken = asyncio.Event()

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing more is sent."""
        return self._cut_off_by is not None

    def offer(self, batch: Batch) -> None:
        """Queue a batch, unless the stream is too far behind or has no room: then it is cut off."""
        if not self.is_cut_off:
            if self._batches and self._bytes + len(batch.text) > MAX_QUEUED_BYTES:
                self._cut_off(TOO_SLOW)
            elif not self._unsent.hold(batch.text, self._owner):
                self._cut_off(NO_ROOM)
            else:
                self._batches.append(batch)
                self._bytes += len(batch.text)
        self.wake()

    def keep(self, text: bytes) -> AbstractContextManager[None]:
        """Count a text that is sent besides batches until the context exits.

        Raises:
            BrokenStreamError: it has no room.
        """
        return self._unsent.keep(text, self._owner)

    def close(self) -> None:
        """Keep nothing from now on, because nothing more is sent."""
        self._release_sent()
        self._cut_off(ENDED)

    def _cut_off(self, reason: str) -> None:
        self._cut_off_by = reason
        while self._batches:
            self._unsent.release(self._batches.popleft().text, self._owner)

    def _release_sent(self) -> None:
        text, self._sending = self._sending, None
        if text is not None:
            self._unsent.release(text, self._owner)

    def wake(self) -> None:
        """End a wait."""
        self._woken.set()

    async def receive(self, seconds: float) -> bytes:
        """Return the next events as they are sent; empty if none arrive within `seconds`.

        Those before have been sent by then.

        Raises:
            BrokenStreamError: the stream was cut off.
        """
        self._release_sent()
        if not (self._batches or self.is_cut_off):
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                return b""
        if self._cut_off_by is not None:
            raise BrokenStreamError(self._cut_off_by)
        if not self._batches:
            return b""
        batch = self._batches.popleft()
        self._bytes -= len(batch.text)
        self._sending = batch.text
        return batch.after(self.position)


class Missed(NamedTuple):
    """The next events that a stream has missed; `until` and `is_all` are those of `Arrivals`."""

    text: bytes
    until: ArrivalKey
    is_all: bool


class ArrivalHub:
    """The poll of one process, which runs while streams are open."""

    def __init__(self, reader: Reader, ids: EventIds, is_stopping: Callable[[], bool]) -> None:
        self.ids = ids
        self.unsent = UnsentEvents()
        self._reader = reader
        self._is_stopping = is_stopping
        self._subscriptions: dict[bytes, set[Subscription]] = {}
        self._position: ArrivalKey | None = None
        # The repositories of the read in progress, None if there is none.
        self._reading: frozenset[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._catching_up = FairSemaphore(1)
        # How many times the store was polled.
        self.polls = 0
        self._has_warned = False

    async def read_missed(self, subscription: Subscription, principal: str) -> Missed:
        """Read the next events for a stream of that principal, which is not attached yet.

        One stream reads at a time, and credentials take turns: admission control does not count
        what a stream reads.
        """
        async with self._catching_up.slot(principal):
            found = await self._reader.list_arrivals(
                subscription.position, EVENTS_AT_ONCE, (subscription.repository,)
            )
            text = make_batch(found.rows, self.ids).text
            if text:
                await asyncio.sleep(PAUSE_SECONDS)
        return Missed(text, found.until, found.is_all)

    def attach(self, subscription: Subscription) -> bool:
        """Send a subscription what follows its position; return false if the poll would miss some.

        It would if it is past that position, or if it is reading the store now, for other
        repositories alone.
        """
        if self._task is None:
            self._position = subscription.position
            # With an empty context, as the poll does not belong to the first request.
            self._task = asyncio.get_running_loop().create_task(
                self._run(), context=contextvars.Context()
            )
        elif self._would_miss_some(subscription):
            return False
        self._subscriptions.setdefault(subscription.repository_id, set()).add(subscription)
        return True

    def _would_miss_some(self, subscription: Subscription) -> bool:
        is_past = self._position is not None and self._position > subscription.position
        reads_others = self._reading is not None and subscription.repository_id not in self._reading
        return is_past or reads_others

    def detach(self, subscription: Subscription) -> None:
        """Send a subscription nothing more; the last one ends the poll."""
        streams = self._subscriptions.get(subscription.repository_id, set())
        streams.discard(subscription)
        subscription.close()
        if not streams:
            self._subscriptions.pop(subscription.repository_id, None)
        if not self._subscriptions and self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """End the poll."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while not self._is_stopping():
            try:
                await self._poll()
            except StoreError as error:
                # One warning for each outage, as the store is polled twice a second.
                level = logging.DEBUG if self._has_warned else logging.WARNING
                _log.log(level, "streams wait for the store", extra={"reason": str(error)})
                self._has_warned = True
            except Exception:  # noqa: BLE001 - the streams of all tenants depend on it
                _log.exception("unhandled error in the poll of streams")
            else:
                if self._has_warned:
                    _log.info("streams go on")
                self._has_warned = False
            await asyncio.sleep(POLL_SECONDS)
        for streams in self._subscriptions.values():
            for subscription in streams:
                subscription.wake()

    async def _poll(self) -> None:
        is_all = False
        while not is_all and self._position is not None:
            self.polls += 1
            found = await self._read(self._position)
            if found.until < self._position:
                # A clock was put back: what arrives now has earlier places than what was sent.
                for streams in self._subscriptions.values():
                    for subscription in streams:
                        subscription.position = min(subscription.position, found.until)
            # No `await` until the position is set: a stream that attaches itself gets all later
            # events, or learns that it has to read on by itself.
            by_repository: dict[bytes, list[Arrival]] = {}
            for row in found.rows:
                by_repository.setdefault(row.repository_id, []).append(row)
            offers = [
                (subscription, batch)
                for repository_id, rows in by_repository.items()
                for batch in (make_batch(rows, self.ids),)
                # The last stream of a repository may have ended during the read.
                for subscription in self._subscriptions.get(repository_id, ())
            ]
            self._position, is_all = found.until, found.is_all
            for number, (subscription, batch) in enumerate(offers, 1):
                subscription.offer(batch)
                if not number % STREAMS_AT_ONCE:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _read(self, position: ArrivalKey) -> Arrivals:
        """Read the events of the repositories that are followed: others may have any number."""
        followed = [next(iter(streams)).repository for streams in self._subscriptions.values()]
        reading = self._reading = frozenset(self._subscriptions)
        try:
            return await self._reader.list_arrivals(position, EVENTS_AT_ONCE, followed)
        finally:
            # A poll that ends with its last stream may end after the next poll has begun.
            if self._reading is reading:
                self._reading = None


def make_batch(rows: Sequence[Arrival], ids: EventIds) -> Batch:
    """Write events as server-sent events, to be shared by streams."""
    frames = tuple(_write(row, ids) for row in rows)
    return Batch(tuple(row.key for row in rows), frames, b"".join(frames))


def _write(row: Arrival, ids: EventIds) -> bytes:
    # JSON text has no line break, and a type is one of the catalogue.
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        ids.write(row.repository_id, row.key).encode(),
        row.type.encode(),
        row.body,
    )
