"""The page of the event log, with filters, counts and exports. Its URL contains the whole view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.events.catalogue import CATALOGUE
from indexing.events.outcomes import decide_outcome
from indexing.started_tasks import started
from indexing.timestamps import MICROSECOND, format_timestamp, parse_timestamp
from service.auth.principal import Principal
from service.http.accept import CSV, NDJSON
from service.http.problems import Problem
from service.routes import AGGREGATE_EVENTS, LIST_EVENTS, STREAM_EVENTS
from service.ui.api import Api
from service.ui.event_counts import draw_histogram, list_facets
from service.ui.event_view import (
    DEFAULT_LAST,
    FORM_FIELDS,
    FROM,
    LASTS,
    OPEN,
    TO,
    EventView,
    explain_error,
    show_moment,
)
from service.ui.page_context import PageContext
from service.ui.queries import (
    Pairs,
    first_of,
    page_links,
    read_pairs,
    values_of,
    without,
    write_pairs,
)
from service.ui.trees import Budget, Node, draw_tree, preview

PER_PAGE: Final = 50
# How long the first content may wait for the counts. If they take longer, a script requests them.
FIRST_SECONDS: Final = 0.15
# The time limit of the counts: a page is shown without counts rather than late.
COUNT_SECONDS: Final = 1.2
# How much metadata a page shows, in all its rows and in one row: 50 rows of the largest metadata
# have 3 MB. The row that the URL names has larger limits of its own.
_PAGE_CHARACTERS: Final = 60_000
_ROW_CHARACTERS: Final = 4_000
_ROW_NODES: Final = 100
_OPEN_CHARACTERS: Final = 150_000
_OPEN_NODES: Final = 5_000


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as a row; `event` is without its metadata.

    `pull_query` is the query string of the view of its pull request, and `full_query` that of the
    view with this row opened.
    """

    event: Mapping[str, Any]
    at: datetime
    outcome: str
    preview: Sequence[tuple[str, str]]
    tree: Sequence[Node]
    is_cut: bool
    is_open: bool
    pull_query: str | None
    full_query: str

    @property
    def day(self) -> date:
        """The day in UTC, by which rows are grouped."""
        return self.at.date()


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/events; a script gets only the rows."""
    api = page.open_api(principal)
    if not page.is_fragment:
        return await _show(page, api, FIRST_SECONDS)
    view = EventView.read(page.request.rel_url.raw_query_string)
    return await page.show("events_part.html", **await _read_rows(page, api, view))


async def show_counts(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/events/counts; without scripts, the page with its counts."""
    api = page.open_api(principal)
    if not page.is_fragment:
        # Each count has a time limit of its own.
        return await _show(page, api, None)
    view = EventView.read(page.request.rel_url.raw_query_string)
    found = await _count_all(api, page.repository_path, view, page.now)
    return await page.show("events_counts.html", **_show_counts(page, view, found))


async def _show(page: PageContext, api: Api, seconds: float | None) -> web.StreamResponse:
    """Show the page, with its counts if they take no longer than that; None waits for them."""
    view = EventView.read(page.request.rel_url.raw_query_string)
    began = time.monotonic()
    async with started(_count_all(api, page.repository_path, view, page.now)) as counting:
        try:
            rows = await _read_rows(page, api, view)
            left = None if seconds is None else max(0.0, began + seconds - time.monotonic())
            await asyncio.wait({counting}, timeout=left)
            found = counting.result() if counting.done() else None
        except Problem as problem:
            if not any(each.field in FORM_FIELDS for each in problem.errors):
                raise
            return await _show_errors(page, view, problem)
    return await page.show(
        "events.html",
        **{**rows, **_form_of(view), **_show_counts(page, view, found)},
        wrong=None,
        start=show_moment(view.received_from),
        end=show_moment(view.received_to),
    )


async def _read_rows(page: PageContext, api: Api, view: EventView) -> dict[str, Any]:
    """Return the values of the list of events."""
    asked = view.ask(page.now)
    paging = [("per_page", str(PER_PAGE))] + ([("cursor", view.cursor)] if view.cursor else [])
    walk = view.walk(asked)
    async with api.get_rows(
        LIST_EVENTS, page.repository_path, write_pairs([*asked, *paging]), "events"
    ) as answer:
        rows = await _make_rows(answer.rows, view, walk)
    return {
        "tab": "events",
        "rows": rows,
        "view": view,
        "links": page_links(answer.links, walk),
        "is_filtered": bool(view.filters),
        "types": _followed_types(view),
    }


def _show_counts(
    page: PageContext, view: EventView, found: tuple[Any, Any] | None
) -> dict[str, Any]:
    """Return the values of the counts; they are late if nothing is found yet."""
    counts, around = found or (None, None)
    walk = dict(view.walk(view.ask(page.now)))
    return {
        "is_late": found is None,
        "view": view,
        "query": view.query(),
        "whole_query": page.request.rel_url.raw_query_string,
        "total": None if counts is None else counts["total"],
        "facets": None if counts is None else list_facets(counts, view),
        "histogram": None if around is None else draw_histogram(around, view, walk),
        "whole": None if view.around is None else view.with_whole_range().query(),
        "zoom": view.with_range(view.received_from, view.received_to).query(),
    }


async def _show_errors(page: PageContext, view: EventView, problem: Problem) -> web.StreamResponse:
    """Show the form as it was sent, with an error beside each field that is wrong."""
    sent = read_pairs(page.request.rel_url.raw_query_string)
    return await page.show(
        "events.html",
        status=problem.status,
        tab="events",
        view=view,
        **_form_of(view),
        start=first_of(sent, FROM),
        end=first_of(sent, TO),
        wrong={
            each.field: explain_error(each, first_of(sent, each.field)) for each in problem.errors
        },
        total=None,
    )


def _form_of(view: EventView) -> dict[str, Any]:
    """Return the values of the filter form, except its range."""
    return {
        "lasts": [
            (text, view.with_last(last).query(), last == view.last)
            for last, (text, _) in LASTS.items()
        ],
        "pulls": values_of(view.filters, "pull_request"),
        "base_ref": first_of(view.filters, "base_ref"),
        "kept": _kept_by_form(view),
    }


async def export_csv(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/events.csv: all events of the view."""
    return await _export(page, principal, CSV, "events.csv")


async def export_lines(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/events.ndjson: all events of the view."""
    return await _export(page, principal, NDJSON, "events.ndjson")


async def follow(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/events/stream: the stream of the API, for this session."""
    api = page.open_api(principal)
    return await api.follow(STREAM_EVENTS, page.repository_path)


async def _export(
    page: PageContext, principal: Principal, kind: str, name: str
) -> web.StreamResponse:
    view = EventView.read(page.request.rel_url.raw_query_string)
    asked = write_pairs(view.ask(page.now))
    api = page.open_api(principal)
    return await api.export(LIST_EVENTS, page.repository_path, asked, kind, name)


async def _count_all(
    api: Api, path: Mapping[str, str], view: EventView, now: datetime
) -> tuple[Any, Any]:
    """Return the counts of the view and of the histogram, None for each that takes too long."""
    of_view = _count(api, path, view.ask(now))
    if view.around is None:
        counts = await of_view
        return counts, counts
    counts, around = await asyncio.gather(of_view, _count(api, path, view.ask_around(now)))
    return counts, around


async def _count(api: Api, path: Mapping[str, str], asked: Pairs) -> Any:
    try:
        async with asyncio.timeout(COUNT_SECONDS):
            return (await api.get(AGGREGATE_EVENTS, path, write_pairs(asked))).value
    except (TimeoutError, StoreUnavailableError):
        return None
    except Problem as problem:
        # The range around the view is not validated before; a link can contain any text for it.
        if problem.status not in (422, 503):
            raise
        return None


async def _make_rows(
    events: AsyncIterator[dict[str, Any]], view: EventView, walk: Pairs
) -> list[EventRow]:
    left = _PAGE_CHARACTERS
    rows = []
    async for event in events:
        # Dropped with each row: to free the metadata of all rows at once takes long.
        metadata = event.pop("metadata")
        is_open = str(event["id"]) == view.opened
        if is_open:
            budget = Budget(_OPEN_NODES, _OPEN_CHARACTERS)
            tree = await asyncio.to_thread(draw_tree, metadata, budget)
        else:
            budget = Budget(_ROW_NODES, min(left, _ROW_CHARACTERS))
            before = budget.characters
            tree = draw_tree(metadata, budget)
            left -= before - budget.characters
        pull = event["pull_request"]
        outcome, declared = "neutral", CATALOGUE.get(event["type"])
        if declared is not None:
            outcome = decide_outcome(declared.outcome, metadata).value
        rows.append(
            EventRow(
                event=event,
                at=parse_timestamp(event["received_at"]),
                outcome=outcome,
                preview=preview(metadata),
                tree=tree,
                is_cut=budget.is_spent,
                is_open=is_open,
                pull_query=None if pull is None else view.only_pull(pull).query(),
                full_query=write_pairs([*_page_with(event, view, walk), (OPEN, str(event["id"]))]),
            )
        )
    return rows


def _page_with(event: Mapping[str, Any], view: EventView, walk: Pairs) -> Pairs:
    """Return the parameters of a page that contains the event, whatever arrives later."""
    if view.cursor:
        return [*walk, ("cursor", view.cursor)]
    # The first page begins with the newest event, so the range ends with this one.
    end = parse_timestamp(event["received_at"]) + MICROSECOND
    return [*without(walk, (TO,)), (TO, format_timestamp(end))]


def _followed_types(view: EventView) -> list[str]:
    """Return the event types that the live view listens for; the server applies other filters."""
    chosen = values_of(view.filters, "event_type") or sorted(CATALOGUE)
    left_out = values_of(view.filters, "not_event_type")
    return [each for each in chosen if each not in left_out]


def _kept_by_form(view: EventView) -> Pairs:
    """Return the filters that the form has as hidden fields."""
    shown = ("pull_request", "base_ref")
    kept = [(name, value) for name, value in view.filters if name not in shown]
    return kept if view.last in ("", DEFAULT_LAST) else [*kept, ("last", view.last)]
