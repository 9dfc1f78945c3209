"""Stored events of the log, and the query for a page of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NamedTuple

from indexing.models.paging import Page, take_fitting
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds

# A longer trigger is stored only in the body of the event: no filter finds it, no facet counts it.
MAX_TRIGGER_LENGTH: Final = 255
# A page ends once it has this many bytes of events. An event may have a megabyte, and a process
# holds many pages until their clients have read them.
MOST_PAGE_BYTES: Final = 8 * 1024 * 1024


class Outcome(Enum):
    """The outcome of the action that an event reports."""

    SUCCESS = "success"
    FAILURE = "failure"
    PENDING = "pending"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, order=True)
class EventKey:
    """The sort key of the log; unique within one repository."""

    received_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One validated event: the columns that queries filter by, and its complete JSON text.

    `body` is the whole envelope as it will be served, in UTF-8. It and `repository` use the
    spelling that `Writer.ensure_repository` returned.
    """

    repository: RepositoryName
    key: EventKey
    type: str
    pull_request: int | None
    base_ref: str | None
    trigger: str
    outcome: Outcome
    body: bytes

    @property
    def searchable_trigger(self) -> str | None:
        """The trigger, unless it is too long for an index."""
        return self.trigger if len(self.trigger) <= MAX_TRIGGER_LENGTH else None


class EventRow(NamedTuple):
    """One event of a page; `body` is its complete JSON text in UTF-8.

    A page of a hundred rows needs the keys of only two, so `key` is built when it is needed.
    """

    received_microseconds: int
    id: int
    body: bytes

    @property
    def key(self) -> EventKey:
        """The sort key."""
        return EventKey(from_microseconds(self.received_microseconds), self.id)


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The filters of an event list; an empty tuple or `None` does not filter.

    An event that is both included and excluded is left out. An event without a pull request matches
    no excluded pull request.

    `received_from` is included in the range, `received_to` is not. Order: newest first, by
    `(received_at, id)` descending.
    """

    repository: RepositoryName
    received_from: datetime
    received_to: datetime
    pull_requests: tuple[int, ...] = ()
    base_ref: str | None = None
    event_types: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    event_types_excluded: tuple[str, ...] = ()
    triggers_excluded: tuple[str, ...] = ()
    outcomes_excluded: tuple[Outcome, ...] = ()
    pull_requests_excluded: tuple[int, ...] = ()


def fit_page(page: Page[EventRow], *, backward: bool) -> Page[EventRow]:
    """Return the rows next to the anchor that have `MOST_PAGE_BYTES` together, at least one."""
    if sum([len(body) for _, _, body in page.rows]) <= MOST_PAGE_BYTES:
        return page
    rows, are_all = take_fitting(reversed(page.rows) if backward else page.rows, MOST_PAGE_BYTES)
    if are_all:
        return page
    if backward:
        return Page(rows[::-1], has_previous=True, has_next=page.has_next)
    return Page(rows, has_previous=page.has_previous, has_next=True)
