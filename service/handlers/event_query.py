"""Makes the store's query of the event log from checked parameters. Knows no request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from indexing.models.events import EventQuery, Outcome
from indexing.names import RepositoryName
from service.pagination.cursor import TimeRange
from service.schemas.limits import DEFAULT_EVENT_RANGE


def choose_received_range(start: datetime | None, end: datetime | None, now: datetime) -> TimeRange:
    """Return the requested range of the log; a missing bound is filled in."""
    return TimeRange.fill_in(start, end, now, DEFAULT_EVENT_RANGE)


def make_query(
    repository: RepositoryName, parameters: Mapping[str, Any], time_range: TimeRange
) -> EventQuery:
    """Return the store's query for checked parameters."""
    return EventQuery(
        repository=repository,
        received_from=time_range.start,
        received_to=time_range.end,
        pull_requests=parameters["pull_request"],
        base_ref=parameters["base_ref"],
        event_types=parameters["event_type"],
        triggers=parameters["trigger"],
        outcomes=tuple(map(Outcome, parameters["outcome"])),
        event_types_excluded=parameters["not_event_type"],
        triggers_excluded=parameters["not_trigger"],
        outcomes_excluded=tuple(map(Outcome, parameters["not_outcome"])),
        pull_requests_excluded=parameters["not_pull_request"],
    )
