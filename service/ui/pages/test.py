"""One test: why it is what it is, what it says when it fails, its executions, its quarantine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from indexing.timestamps import format_timestamp
from service.auth.principal import Principal
from service.http.problems import Problem
from service.routes import (
    ADD_QUARANTINE,
    GET_FAILURE,
    GET_TEST,
    GET_TEST_HEALTH,
    LIST_EXECUTIONS,
    LIST_FAILURES,
    LIST_QUARANTINES,
    LIST_TEST_TRANSITIONS,
)
from service.ui.api import Api
from service.ui.forms import Fields, first, read_form
from service.ui.queries import (
    first_of,
    only,
    page_links,
    read_pairs,
    values_of,
    without,
    write_pairs,
)
from service.ui.visit import Visit

_EXECUTIONS_PER_PAGE: Final = "20"
_FAILURES_PER_PAGE: Final = "20"
# Of the executions; the failures have a cursor of their own name.
_FILTERS: Final = ("branch", "commit", "conclusion", "pipeline_name", "job_name")
_FAILURES_CURSOR: Final = "failures"
_CONCLUSIONS: Final = ("", "failed", "passed", "skipped")

# Of the jobs of a matrix, so many are read; the worst come first.
_MOST_JOBS: Final = 50

_MOST_TRANSITIONS: Final = 12

# How long a quarantine may be wanted for, in days.
TERMS: Final = (7, 14, 30, 90)


async def show(visit: Visit, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests/{test_id}."""
    return await _show(visit, visit.open_api(principal))


async def show_failure(visit: Visit, principal: Principal) -> web.StreamResponse:
    """GET /ui/{owner}/{repository}/tests/{test_id}/failures/{failure_id}."""
    path = {**_path_of(visit), "failure_id": visit.request.match_info["failure_id"]}
    api = visit.open_api(principal)
    if visit.is_fragment:
        found = await api.get(GET_FAILURE, path)
        return await visit.show("failure_part.html", failure=found.value)
    found, detail = await asyncio.gather(api.get(GET_FAILURE, path), api.get(GET_TEST, path))
    return await visit.show("failure.html", tab="tests", failure=found.value, test=detail.value)


async def quarantine(visit: Visit, principal: Principal) -> web.StreamResponse:
    """POST /ui/{owner}/{repository}/tests/{test_id}/quarantine."""
    api = visit.open_api(principal)
    form = await read_form(visit.request, visit.session, visit.dashboard.public_url)
    detail = await api.get(GET_TEST, _path_of(visit))
    try:
        await api.change(
            ADD_QUARANTINE, visit.repository_path, _wanted(visit, detail.value["test_name"], form)
        )
    except Problem as problem:
        if problem.status not in (409, 422):
            raise
        return await _show(visit, api, problem, form)
    return visit.go_to(_place_of(visit) + "#quarantine")


def _wanted(visit: Visit, test_name: str, form: Fields) -> dict[str, Any]:
    days = first(form, "days")
    # What is not among the choices goes to the API as it is, which says what is wrong with it.
    ends_at = days or None
    if days in map(str, TERMS):
        ends_at = format_timestamp(visit.now + timedelta(days=int(days)))
    return {
        "test_name": test_name,
        "reason": first(form, "reason"),
        "branch": first(form, "branch") or None,
        "owner": first(form, "owner") or None,
        "expires_at": ends_at,
    }


async def _show(
    visit: Visit, api: Api, wrong: Problem | None = None, form: Fields | None = None
) -> web.StreamResponse:
    path = _path_of(visit)
    pairs = read_pairs(visit.request.rel_url.raw_query_string)
    filters = only(pairs, _FILTERS)
    executions_query = only(pairs, (*_FILTERS, "cursor"))
    failures_query = [("per_page", _FAILURES_PER_PAGE)]
    failures_query += [("cursor", cursor) for cursor in values_of(pairs, _FAILURES_CURSOR)]
    detail, health, failures, executions, quarantines, history = await asyncio.gather(
        api.get(GET_TEST, path),
        api.get(GET_TEST_HEALTH, path),
        api.get(LIST_FAILURES, path, write_pairs(failures_query)),
        api.get(
            LIST_EXECUTIONS,
            path,
            write_pairs([*executions_query, ("per_page", _EXECUTIONS_PER_PAGE)]),
        ),
        api.get(LIST_QUARANTINES, path, write_pairs([("test_id", path["test_id"])])),
        api.get(LIST_TEST_TRANSITIONS, path),
    )
    place = _place_of(visit)
    older_failures = page_links(failures.links, [], _FAILURES_CURSOR).get("next")
    conclusion = first_of(pairs, "conclusion")
    return await visit.show(
        "test.html",
        status=200 if wrong is None else wrong.status,
        tab="tests",
        place=place,
        test=detail.value,
        health=health.value,
        history=history.value["transitions"][:_MOST_TRANSITIONS],
        first_activity_at=history.value["first_activity_at"],
        failures=failures.value["failures"],
        more_failures=older_failures,
        executions=executions.value["executions"],
        execution_links=page_links(executions.links, filters),
        quarantines=quarantines.value["quarantined_tests"],
        filters=without(filters, ("conclusion",)),
        conclusions=[
            (
                each,
                each == conclusion,
                write_pairs(
                    [*without(filters, ("conclusion",)), *([("conclusion", each)] if each else [])]
                ),
            )
            for each in _CONCLUSIONS
        ],
        most_jobs=_MOST_JOBS,
        terms=TERMS,
        wrong=wrong,
        form=form or {},
    )


def _path_of(visit: Visit) -> dict[str, str]:
    return {**visit.repository_path, "test_id": visit.request.match_info["test_id"]}


def _place_of(visit: Visit) -> str:
    info = visit.request.match_info
    return visit.link(info["owner"], info["repository"], "tests", info["test_id"])
