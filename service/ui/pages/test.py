"""The page of one test: its health and the reasons, failures, executions and quarantine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus

from aiohttp import web

from indexing.errors import StoreUnavailableError
from indexing.models.trends import TestStat
from indexing.timestamps import format_timestamp, parse_timestamp
from service.auth.principal import Principal
from service.http.problems import Problem
from service.routes import (
    ADD_QUARANTINE,
    GET_FAILURE,
    GET_TEST,
    GET_TEST_HEALTH,
    GET_TEST_STATS,
    LIST_EXECUTIONS,
    LIST_FAILURES,
    LIST_QUARANTINES,
    LIST_TEST_TRANSITIONS,
)
from service.schemas.limits import DEFAULT_RANGE
from service.ui.api import Api, ApiAnswer
from service.ui.charts import CHART_HEIGHT, CHART_WIDTH, draw_durations, spread_labels
from service.ui.formats import show_briefly
from service.ui.forms import Fields, first, read_form
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

_EXECUTIONS_PER_PAGE: Final = "20"
_FAILURES_PER_PAGE: Final = "20"
# The maximum page size of the API: a test is rarely in quarantine for more than one branch.
_MOST_QUARANTINES: Final = "100"
# The filters of the executions. The list of failures has a cursor parameter of its own.
_FILTERS: Final = ("branch", "commit", "conclusion", "pipeline_name", "job_name", "start", "end")
_FAILURES_CURSOR: Final = "failures"
# The filters that the series of durations have too.
_JOB_FILTERS: Final = ("pipeline_name", "job_name")
_CONCLUSIONS: Final = ("", "failed", "passed", "skipped")

# The number of jobs that the page explains, worst first; a matrix can have many more.
_MOST_JOBS: Final = 50

_MOST_OWNERS: Final = 5
# How long the page waits for owners: the first search in a large CODEOWNERS file takes seconds.
OWNERS_SECONDS: Final = 0.5

# The most characters in a link, percent-encoded: a target has at most 8,000 bytes, and there are
# thousands of links. The hash of a commit has at most 64.
_LONG_NAMES: Final = 1_000
_LONG_COMMIT: Final = 100

_SECOND: Final = timedelta(seconds=1)

_MOST_TRANSITIONS: Final = 12

_DAYS_OF_DURATIONS: Final = 30

# The durations of a quarantine that the form offers, in days.
TERMS: Final = (7, 14, 30, 90)


async def show(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests/{test_id}."""
    return await _show(page, page.open_api(principal))


async def show_failure(page: PageContext, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests/{test_id}/failures/{failure_id}."""
    path = {**_path_of(page), "failure_id": page.request.match_info["failure_id"]}
    api = page.open_api(principal)
    if page.is_fragment:
        found = await api.get(GET_FAILURE, path)
        return await page.show("failure_part.html", failure=found.value)
    found, detail = await asyncio.gather(api.get(GET_FAILURE, path), api.get(GET_TEST, path))
    return await page.show("failure.html", tab="tests", failure=found.value, test=detail.value)


async def redirect(page: PageContext, _: Principal) -> web.StreamResponse:
    """GET the address of a form that was refused, which shows the page of the test."""
    return page.go_to(_place_of(page) + "#quarantine")


async def quarantine(page: PageContext, principal: Principal) -> web.StreamResponse:
    """POST /ui/{owner}/{repository}/tests/{test_id}/quarantine."""
    api = page.open_api(principal)
    form = await read_form(page.request, page.session, page.dashboard.public_url)
    detail = await api.get(GET_TEST, _path_of(page))
    try:
        body = _make_quarantine(page, detail.value["test_name"], form)
        await api.change(ADD_QUARANTINE, page.repository_path, body)
    except Problem as problem:
        if problem.status not in (409, 422):
            raise
        return await _show(page, api, problem, form)
    return page.go_to(_place_of(page) + "#quarantine")


def _make_quarantine(page: PageContext, test_name: str, form: Fields) -> dict[str, Any]:
    days = first(form, "days")
    # A value that is not among the choices is sent as it is, and the API refuses it.
    ends_at = days or None
    if days in map(str, TERMS):
        ends_at = format_timestamp(page.now + timedelta(days=int(days)))
    return {
        "test_name": test_name,
        "reason": first(form, "reason"),
        "branch": first(form, "branch") or None,
        "owner": first(form, "owner") or None,
        "expires_at": ends_at,
    }


async def _show(
    page: PageContext, api: Api, wrong: Problem | None = None, form: Fields | None = None
) -> web.StreamResponse:
    path = _path_of(page)
    pairs = read_pairs(page.request.rel_url.raw_query_string)
    filters = only(pairs, _FILTERS)
    # The parameters of each list in the URL of the page. Each list keeps the page of the other.
    of_executions = only(pairs, (*_FILTERS, "cursor"))
    of_failures = only(pairs, (_FAILURES_CURSOR,))
    cursors = [("cursor", cursor) for cursor in values_of(pairs, _FAILURES_CURSOR)]
    failures_query = write_pairs([("per_page", _FAILURES_PER_PAGE), *cursors])
    executions_query = write_pairs([*of_executions, ("per_page", _EXECUTIONS_PER_PAGE)])
    of_test = [("test_id", path["test_id"]), ("include", "details")]
    quarantines_query = write_pairs([*of_test, ("per_page", _MOST_QUARANTINES)])
    found = asyncio.gather(
        asyncio.gather(
            api.get(GET_TEST, path),
            _read_health(api, path),
            api.get(LIST_FAILURES, path, failures_query),
            api.get(LIST_EXECUTIONS, path, executions_query),
            api.get(LIST_QUARANTINES, path, quarantines_query),
            api.get(LIST_TEST_TRANSITIONS, path),
        ),
        _read_durations(page, api, only(pairs, _JOB_FILTERS)),
    )
    try:
        answers, durations = await found
    except Problem as problem:
        if problem.status == HTTPStatus.NOT_FOUND:
            await _explain_missing(api, path, quarantines_query)
        raise
    detail, health, failures, executions, quarantines, history = answers
    place = _place_of(page)
    earlier = _find_earlier(health.value["jobs"], page.now)
    return await page.show(
        "test.html",
        status=200 if wrong is None else wrong.status,
        tab="tests",
        place=place,
        test=detail.value,
        health=health.value,
        most_owners=_MOST_OWNERS,
        owner_query=_owner_query,
        history=history.value["transitions"][:_MOST_TRANSITIONS],
        has_older_history=len(history.value["transitions"]) > _MOST_TRANSITIONS,
        first_activity_at=history.value["first_activity_at"],
        failures=failures.value["failures"],
        failure_links=page_links(failures.links, of_executions, _FAILURES_CURSOR),
        newest_failures=write_pairs(of_executions) if cursors else None,
        executions=executions.value["executions"],
        execution_links=page_links(executions.links, [*filters, *of_failures]),
        # Without the filters of the executions, and without those of the durations.
        all_executions=write_pairs(of_failures),
        all_durations=write_pairs([*without(filters, _JOB_FILTERS), *of_failures]),
        earlier=None if filters else earlier,
        has_range=bool(only(filters, ("start", "end"))),
        range_days=DEFAULT_RANGE.days,
        job_query=_job_query,
        verdict_query=partial(_verdict_query, page.now),
        quarantines=quarantines.value["quarantined_tests"],
        has_more_quarantines="next" in quarantines.links,
        **durations,
        filters=without(filters, ("conclusion",)),
        conclusions=_list_conclusions(filters, of_failures),
        most_jobs=_MOST_JOBS,
        terms=TERMS,
        wrong=wrong,
        form=form or {},
    )


def _list_conclusions(filters: Pairs, kept: Pairs) -> list[tuple[str, bool, str]]:
    """Return each conclusion, whether the executions have it, and the query that filters by it.

    The first one is empty: no filter. Each query has the parameters `kept` at its end.
    """
    others, chosen = without(filters, ("conclusion",)), first_of(filters, "conclusion")
    choices = [(each, [("conclusion", each)] if each else []) for each in _CONCLUSIONS]
    return [
        (each, each == chosen, write_pairs([*others, *of_each, *kept])) for each, of_each in choices
    ]


async def _explain_missing(api: Api, path: Mapping[str, str], query: str) -> None:
    """Raise a `Problem` that names the test, if it is quarantined but no result is known."""
    found = await api.get(LIST_QUARANTINES, path, query)
    if found.value["quarantined_tests"]:
        name = show_briefly(found.value["quarantined_tests"][0]["test_name"])
        raise Problem(
            HTTPStatus.NOT_FOUND,
            f"no result of {name} is known, so it has no page; if that is how its reports spell it,"
            " its quarantine waits for the first result",
        )


async def _read_health(api: Api, path: Mapping[str, str]) -> ApiAnswer:
    """Return the report on the health; its owners are None if finding them takes too long."""
    with_owners = asyncio.create_task(api.get(GET_TEST_HEALTH, path, "include=owners"))
    running = [with_owners]
    try:
        await asyncio.wait(running, timeout=OWNERS_SECONDS)
        if not with_owners.done():
            # Beside it, because it may be the report that takes long.
            running.append(asyncio.create_task(api.get(GET_TEST_HEALTH, path)))
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        if with_owners.done():
            with suppress(StoreUnavailableError):
                return with_owners.result()
        plain = running[1] if len(running) > 1 else api.get(GET_TEST_HEALTH, path)
        return ApiAnswer({**(await plain).value, "owners": None})
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _owner_query(owner: str) -> str:
    """Return the query string of the tests of an owner."""
    return write_pairs([("owner", owner)])


def _job_query(job: Mapping[str, Any]) -> str | None:
    """Return the query string of what belongs to a job; None if its names are too long."""
    query = write_pairs((name, job[name]) for name in _JOB_FILTERS)
    return query if len(query) <= _LONG_NAMES else None


def _verdict_query(now: datetime, job: Mapping[str, Any], verdict: Mapping[str, Any]) -> str | None:
    """Return the query string of the executions that a verdict is about."""
    of_job, commit = _job_query(job), verdict["commit"]
    if of_job is None or len(quote_plus(commit)) > _LONG_COMMIT:
        return None
    first, last = (
        parse_timestamp(verdict[name]) for name in ("first_execution_at", "last_execution_at")
    )
    pairs = [("commit", commit), *(_range_to(first, last) if _is_earlier(first, now) else [])]
    return f"{write_pairs(pairs)}&{of_job}"


def _find_earlier(jobs: Sequence[Mapping[str, Any]], now: datetime) -> str | None:
    """Return the query string of the newest executions if the default range ends before them."""
    newest = max((parse_timestamp(job["last_execution_at"]) for job in jobs), default=now)
    if not _is_earlier(newest, now):
        return None
    return write_pairs(_range_to(newest - DEFAULT_RANGE, newest))


def _is_earlier(moment: datetime, now: datetime) -> bool:
    """Whether the moment may lie before the default range, which begins at a whole minute.

    The verdicts that a page shows are those of as many days up to the newest execution of the test,
    which may be older.
    """
    return moment < now - DEFAULT_RANGE + timedelta(minutes=1)


def _range_to(first: datetime, last: datetime) -> Pairs:
    return [("start", format_timestamp(first)), ("end", format_timestamp(last + _SECOND))]


async def _read_durations(page: PageContext, api: Api, jobs: Pairs) -> dict[str, Any]:
    """Return the values of the chart of durations, of the chosen jobs."""
    query = write_pairs([*page.find_range(_DAYS_OF_DURATIONS), *jobs])
    mean, longest = await asyncio.gather(
        *(
            api.get(GET_TEST_STATS, {**_path_of(page), "stat": stat}, query)
            for stat in (TestStat.MEAN_DURATION, TestStat.MAX_DURATION)
        )
    )
    starts, means, maxima = (
        [each[name] for each in body["value_over_time"]]
        for body, name in ((mean.value, "start"), (mean.value, "value"), (longest.value, "value"))
    )
    return {
        "duration_days": _DAYS_OF_DURATIONS,
        "duration_filters": jobs,
        "durations": draw_durations(means, maxima),
        "duration_labels": [starts[at] for at in spread_labels(len(starts))],
        "duration_table": [
            row for row in zip(starts, means, maxima, strict=True) if row[1] is not None
        ][::-1],
        "mean_duration": mean.value["value"],
        "longest_duration": longest.value["value"],
        "chart_width": CHART_WIDTH,
        "chart_height": CHART_HEIGHT,
    }


def _path_of(page: PageContext) -> dict[str, str]:
    return {**page.repository_path, "test_id": page.request.match_info["test_id"]}


def _place_of(page: PageContext) -> str:
    return page.link_in_repository("tests", page.request.match_info["test_id"])
