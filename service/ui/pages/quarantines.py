"""The page of quarantines: those of recovered tests, the others, and the latest changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from aiohttp import web

from indexing.concurrent_works import run_some_at_once
from service.auth.principal import Principal
from service.http.problems import Problem
from service.routes import LIST_QUARANTINE_CHANGES, LIST_QUARANTINES, REMOVE_QUARANTINE
from service.ui.api import Api
from service.ui.forms import first, read_form
from service.ui.page_context import PageContext
from service.ui.queries import first_of, only, page_links, read_pairs, write_pairs
from service.ui.recovered import find_recovered

# The maximum page size of the API, so that nearly all repositories need one page.
_PER_PAGE: Final = "100"
_CHANGES_PER_PAGE: Final = "20"
_CHANGES_CURSOR: Final = "changes"
_FILTERS: Final = ("branch", "source")
# The number of quarantines that one form can end, equal to the number on a page.
_MAX_ENDED: Final = 100
# The most recovered tests of other pages that a page names.
_MAX_ELSEWHERE: Final = 20
# The parameter that says how many quarantines a form has ended, and its value if none was chosen.
# Scripts drop it from the URL.
_ENDED: Final = "ended"
_NONE_CHOSEN: Final = "none"


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/quarantines."""
    api = page.open_api(principal)
    pairs = read_pairs(page.request.rel_url.raw_query_string)
    filters = only(pairs, _FILTERS)
    asked = [*only(pairs, (*_FILTERS, "cursor")), ("per_page", _PER_PAGE), ("include", "details")]
    changes_cursor = first_of(pairs, _CHANGES_CURSOR)
    of_changes = [("per_page", _CHANGES_PER_PAGE)]
    of_changes += [("cursor", changes_cursor)] if changes_cursor else []
    found, changes = await asyncio.gather(
        api.get(LIST_QUARANTINES, page.repository_path, write_pairs(asked)),
        api.get(LIST_QUARANTINE_CHANGES, page.repository_path, write_pairs(of_changes)),
    )
    rows = found.value["quarantined_tests"]
    # Each list keeps the page of the other.
    links = page_links(found.links, only(pairs, (*_FILTERS, _CHANGES_CURSOR)))
    elsewhere: list[dict[str, Any]] = []
    elsewhere_count = 0
    if links:
        elsewhere, elsewhere_count = await find_recovered(
            api, page.repository_path, filters, _MAX_ELSEWHERE, {row["id"] for row in rows}
        )
    return await page.show(
        "quarantines.html",
        tab="quarantines",
        groups=_group(rows),
        count=len(rows),
        links=links,
        elsewhere=elsewhere,
        elsewhere_count=elsewhere_count,
        kept=filters,
        changes=changes.value["changes"],
        change_links=page_links(changes.links, only(pairs, (*_FILTERS, "cursor")), _CHANGES_CURSOR),
        branch=first_of(pairs, "branch"),
        source=first_of(pairs, "source"),
        is_filtered=bool(filters),
        query=write_pairs(filters),
        is_later=bool(first_of(pairs, "cursor")),
        test_id_of=page.test_id_of,
        ended=_read_count(first_of(pairs, _ENDED)),
        none_chosen=first_of(pairs, _ENDED) == _NONE_CHOSEN,
    )


async def redirect(page: PageContext, _: Principal) -> web.StreamResponse:
    """GET the address of the form, which was refused."""
    return page.go_to(_place_of(page))


async def end(page: PageContext, principal: Principal) -> web.StreamResponse:
    """POST /ui/{owner}/{repository}/quarantines/end: end the selected quarantines."""
    api = page.open_api(principal)
    form = await read_form(page.request, page.session, page.dashboard.public_url)
    chosen = list(dict.fromkeys(form.get("id", [])[:_MAX_ENDED]))
    works = (partial(_end_one, page, api, each) for each in chosen)
    async with aclosing(run_some_at_once(works)) as outcomes:
        ended = sum([was_in_force async for was_in_force in outcomes])
    test_id = first(form, "test_id")
    if test_id:
        return page.go_to(f"{page.link_in_repository('tests', test_id)}#quarantine")
    # Not the cursor: all rows of the page may be gone.
    view = [(name, first(form, name)) for name in _FILTERS if first(form, name)]
    told = (_ENDED, str(ended) if chosen else _NONE_CHOSEN)
    return page.go_to(f"{_place_of(page)}?{write_pairs([*view, told])}")


async def _end_one(page: PageContext, api: Api, quarantine_id: str) -> bool:
    """End a quarantine; return whether it was in force."""
    path = {**page.repository_path, "quarantine_id": quarantine_id}
    try:
        await api.change(REMOVE_QUARANTINE, path)
    except Problem as problem:
        # It was ended or expired after the page was loaded.
        if problem.status != web.HTTPNotFound.status_code:
            raise
        return False
    return True


def _place_of(page: PageContext) -> str:
    return page.link_in_repository("quarantines")


def _group(rows: Sequence[dict[str, Any]]) -> list[tuple[bool, list[dict[str, Any]]]]:
    """Return the rows of recovered tests, then the others; empty groups are left out."""
    groups = [
        (each, [row for row in rows if row["is_recovered"] is each]) for each in (True, False)
    ]
    return [(recovered, found) for recovered, found in groups if found]


def _read_count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else None
