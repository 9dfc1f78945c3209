"""Counts of the event log, for dashboards: a histogram and facets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web

from indexing.models.event_aggregates import Bars, EventAggregate, FacetValue, choose_bars
from service.cache.answers import make_answer
from service.context import CONTEXT, REPOSITORY
from service.handlers.event_query import choose_received_range, make_query
from service.handlers.parameters import read_parameters
from service.middleware.response_cache import respond_uncached
from service.routes import AGGREGATE_EVENTS
from service.schemas.compiled import compile_encoder
from service.schemas.responses import EventAggregateAnswer

_encode: Final = compile_encoder(EventAggregateAnswer)


@dataclass(frozen=True, slots=True)
class _Bar:
    start: datetime
    end: datetime
    count: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """The object that the response is encoded from."""

    found: EventAggregate
    bars: Bars

    @property
    def total(self) -> int:
        return self.found.total

    @property
    def interval_size_seconds(self) -> float:
        return self.bars.seconds

    @property
    def histogram(self) -> Sequence[_Bar]:
        return [
            _Bar(*self.bars.bounds(number), count)
            for number, count in enumerate(self.found.histogram)
        ]

    @property
    def by_event_type(self) -> Sequence[FacetValue[str]]:
        return self.found.by_event_type

    @property
    def by_outcome(self) -> Sequence[FacetValue[str]]:
        return self.found.by_outcome

    @property
    def by_trigger(self) -> Sequence[FacetValue[str]]:
        return self.found.by_trigger

    @property
    def by_pull_request(self) -> Sequence[FacetValue[int]]:
        return self.found.by_pull_request


async def aggregate_events(request: web.Request) -> web.StreamResponse:
    """GET /v1/repos/{owner}/{repository}/logs/aggregate."""
    parameters, ignored = read_parameters(request, AGGREGATE_EVENTS)
    context = request.app[CONTEXT]
    time_range = choose_received_range(
        parameters["received_from"], parameters["received_to"], context.clock()
    )
    query = make_query(request[REPOSITORY], parameters, time_range)
    bars = choose_bars(query.received_from, query.received_to)
    found = await context.reader.aggregate_events(query, bars)
    return respond_uncached(request, make_answer(_encode(_Counted(found, bars))), ignored=ignored)
