"""The list of tests, made by the search of the API, and its export. Its URL is the whole view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from service.auth.principal import Principal
from service.http.accept import CSV
from service.routes import SEARCH_TESTS
from service.ui.page_context import PageContext
from service.ui.queries import (
    Pairs,
    first_of,
    only,
    page_links,
    read_pairs,
    values_of,
    without,
    write_pairs,
)

PER_PAGE: Final = "50"
_PAGING: Final = ("cursor", "per_page")
_PATTERN: Final = "test_name"
_DEFAULT_SORT: Final = "health_status"
_HEALTH: Final = ("broken", "flaky", "unknown", "healthy")

# The filters of which the form shows the first value, and the parameters that it sets as a whole.
# Each order begins with the worst, so the form leaves its direction out.
_SHOWN: Final = (_PATTERN, "pipeline_name", "job_name", "test_filepath", "owner")
_WHOLE: Final = ("health_status", "quarantined", "sort", "direction")
_FILTERS: Final = SEARCH_TESTS.query.load_fields.keys() - {*_WHOLE, *_PAGING, "include"}

# The sort keys, each with its label and the direction that shows the worst first.
SORTS: Final = {
    "health_status": ("worst first", "desc"),
    "failure_ratio": ("failure ratio", "desc"),
    "flakiness_ratio": ("flakiness ratio", "desc"),
    "failed_executions_count": ("failed executions", "desc"),
    "last_failure_at": ("last failure", "desc"),
    "mean_duration": ("mean duration", "desc"),
    "executions_count": ("executions", "desc"),
    "test_name": ("name", "asc"),
    "pipeline_name": ("pipeline", "asc"),
    "job_name": ("job", "asc"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a filter or of the sort key."""

    value: str
    label: str
    chosen: bool


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests."""
    pairs = read_pairs(page.request.rel_url.raw_query_string)
    asked = _search_query(pairs)
    answer = await page.open_api(principal).get(
        SEARCH_TESTS,
        page.repository_path,
        write_pairs([*asked, ("include", "metrics"), ("include", "total")]),
    )
    kept = without(pairs, _PAGING)
    return await page.show(
        "tests_fragment.html" if page.is_fragment else "tests.html",
        tab="tests",
        rows=answer.value["tests"],
        total=answer.value["total"],
        total_is_exact=answer.value["total_is_exact"],
        links=page_links(answer.links, kept),
        shown={name: first_of(pairs, name) for name in _SHOWN},
        kept=_kept_by_form(pairs),
        quarantined=first_of(pairs, "quarantined"),
        health=[Choice(each, each, each in values_of(pairs, "health_status")) for each in _HEALTH],
        sorts=[
            Choice(value, label, value == (first_of(pairs, "sort") or _DEFAULT_SORT))
            for value, (label, _) in SORTS.items()
        ],
        query=write_pairs(kept),
        is_later=bool(first_of(pairs, "cursor")),
        is_filtered=bool(without(kept, ("sort", "direction"))),
    )


async def export(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests.csv: all rows of the view, with their metrics."""
    pairs = without(read_pairs(page.request.rel_url.raw_query_string), _PAGING)
    api = page.open_api(principal)
    query = write_pairs([*_search_query(pairs), ("include", "metrics")])
    return await api.export(SEARCH_TESTS, page.repository_path, query, CSV, "tests.csv")


def _kept_by_form(pairs: Pairs) -> Pairs:
    """Return the filters that the form keeps without showing them."""
    kept = only(pairs, _FILTERS)
    for name in _SHOWN:
        shown = (name, first_of(pairs, name))
        if shown in kept:
            kept.remove(shown)
    return kept


def _search_query(pairs: Pairs) -> Pairs:
    """Return the parameters of the search; a text without a wildcard matches within names.

    Spaces around such a text, which often come with a copied name, do not count.
    """
    asked = without(pairs, (_PATTERN, "per_page"))
    sort = first_of(pairs, "sort") or _DEFAULT_SORT
    asked = [*without(asked, ("sort", "direction")), ("sort", sort)]
    asked.append(("direction", first_of(pairs, "direction") or SORTS.get(sort, ("", "desc"))[1]))
    patterns = values_of(pairs, _PATTERN) or ["*"]
    asked += [
        (_PATTERN, each if "*" in each or "?" in each else f"*{each.strip()}*") for each in patterns
    ]
    return [*asked, ("per_page", PER_PAGE)]
