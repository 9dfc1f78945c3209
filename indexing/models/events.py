"""Events of the log as they are stored, and the question that a page of them answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds


@dataclass(frozen=True, slots=True, order=True)
class EventKey:
    """What orders the log of one repository: unique there."""

    received_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One validated event: the columns that it is found by, and its finished JSON text.

    `body` is the whole envelope as it will be served, in UTF-8. It and `repository` are in the
    spelling that `Writer.ensure_repository` gave.
    """

    repository: RepositoryName
    key: EventKey
    type: str
    pull_request: int | None
    base_ref: str | None
    body: bytes


class EventRow(NamedTuple):
    """One event of a page; `body` is its JSON text in UTF-8, finished.

    A page has a hundred of them and is asked for the keys of two: the rest stay as they are stored.
    """

    received_microseconds: int
    id: int
    body: bytes

    @property
    def key(self) -> EventKey:
        """What orders it."""
        return EventKey(from_microseconds(self.received_microseconds), self.id)


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events of a repository; an empty tuple or `None` does not filter.

    `received_from` is the first moment of the range, `received_to` the first one after it.
    Newest first, by `(received_at, id)` descending.
    """

    repository: RepositoryName
    received_from: datetime
    received_to: datetime
    pull_requests: tuple[int, ...] = ()
    base_ref: str | None = None
    event_types: tuple[str, ...] = ()
