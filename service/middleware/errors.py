"""The request id, and the two layers that turn errors into problem responses.

The outermost layer gives each request an id, sets it on the response, and catches the errors of all
other layers. The inner layer turns what handlers raise into a response, so that metrics and CORS in
between see one.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeAlias

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse

from indexing.errors import StaleKeyError, StoreUnavailableError
from service import logs
from service.http import problem_pages, problems
from service.http.accept import accepts_html
from service.http.methods import READS
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.request_id import REQUEST_ID
from service.http.response_headers import REQUEST_ID_HEADER
from service.http.targets import UI_PREFIX
from service.middleware.layer import Handler, Layer
from service.routes import name_operation

# UUIDs, ULIDs and trace ids. An underscore is left out, so that no application key passes.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9.\-]{1,64}")
# The length of the ids that are made here.
_ID_LENGTH: Final = 32
# One call for many random bytes costs as much as a call for a few.
_IDS_MADE_AT_ONCE: Final = 256

_INGEST_IS_OFF: Final = "ingest over HTTP is off: the operator can set MERGEWATCH_INGEST=true"
# The statuses of an unknown path, and of a known path without this method.
_UNROUTED: Final = frozenset({404, 405})

# Runs the work on a request to its end even if the caller is cancelled.
RunShielded: TypeAlias = Callable[
    [BaseRequest, Coroutine[Any, Any, StreamResponse]], Awaitable[StreamResponse]
]

_log = logging.getLogger(__name__)


def _make_ids() -> Iterator[str]:
    while True:
        text = secrets.token_hex(_IDS_MADE_AT_ONCE * _ID_LENGTH // 2)
        for start in range(0, len(text), _ID_LENGTH):
            yield text[start : start + _ID_LENGTH]


# Lazy: workers that are forked before the first id is made draw random bytes of their own.
_ids: Final = _make_ids()


def make_request_id() -> str:
    """Return a new request id."""
    return next(_ids)


def add_request_id(handler: Handler) -> Handler:
    """Put the id on the request, into its log lines, and on the response."""

    async def answer(request: BaseRequest) -> StreamResponse:
        current = request[REQUEST_ID] = choose_request_id(request.headers)
        logs.request_id.set(current)
        try:
            response = await handler(request)
        except Exception:  # noqa: BLE001 - any error becomes a problem response
            _log.exception("unhandled error", extra={"method": request.method})
            response = problems.response(problems.generic(500))
        response.headers[REQUEST_ID_HEADER] = current
        return response

    return answer


def handle_errors(run_shielded: RunShielded, *, ingest: bool) -> Layer:
    """Return a layer that responds with the handler's response, or the problem that it raised.

    `run_shielded` finishes requests that write. `ingest`: whether uploads are accepted at all.
    """

    def around(handler: Handler) -> Handler:
        async def answer_any(request: BaseRequest) -> StreamResponse:
            if request.method in READS:
                return await answer(request)
            # Finish writes even if the client disconnects.
            return await run_shielded(request, answer(request))

        async def answer(request: BaseRequest) -> StreamResponse:
            try:
                return await handler(request)
            except Exception as error:  # noqa: BLE001 - any error becomes a problem response
                problem = explain(request, error, _log)
                if not ingest and isinstance(error, web.HTTPException):
                    _explain_no_ingest(request, problem)
                return _respond(request, problem)

        return answer_any

    return around


def _respond(request: BaseRequest, problem: Problem) -> web.Response:
    """Return a problem: as a page to a browser that asks for one of the dashboard.

    The dashboard shows its own errors. This is for requests that no page of it accepts.
    """
    is_of_dashboard = request.raw_path.startswith(UI_PREFIX)
    if is_of_dashboard and accepts_html(request.headers.getall("Accept", ())):
        return problem_pages.respond(request, problem)
    return problems.response(problem)


def explain(request: BaseRequest, error: Exception, log: logging.Logger) -> Problem:
    """Return the problem of an error that a handler raised; log it unless the client caused it."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StaleKeyError):
        return problems.stale_cursor()
    if isinstance(error, StoreUnavailableError):
        log.warning("store unavailable", extra={"reason": str(error)})
        return problems.store_unavailable()
    if isinstance(error, web.HTTPException):
        return problems.from_http_exception(error)
    # Not the path itself: it may hold a key that somebody pasted.
    about = {"method": request.method, "route": find_route(request)}
    log.error("unhandled error", exc_info=error, extra=about)
    return problems.generic(500)


def find_route(request: BaseRequest) -> str | None:
    """Return the path template of the request's route."""
    resource = request.match_info.route.resource if isinstance(request, web.Request) else None
    return None if resource is None else resource.canonical


def _explain_no_ingest(request: BaseRequest, problem: Problem) -> None:
    """Say in a problem that uploads are turned off, if that is why no route accepts the request."""
    if problem.status in _UNROUTED and name_operation(request.method, request.raw_path) in (
        Operation.SEND_EVENTS.value,
        Operation.SEND_TRACES.value,
    ):
        problem.detail = _INGEST_IS_OFF


def choose_request_id(headers: Mapping[str, str]) -> str:
    """Return the client's own id if it is well-formed, otherwise a new one."""
    given = headers.get(REQUEST_ID_HEADER)
    if given is None or not _REQUEST_ID.fullmatch(given):
        return next(_ids)
    # Ids are logged, so an id that equals the credential is replaced.
    if headers.get("Authorization", "").strip().rpartition(" ")[2] == given:
        return next(_ids)
    return given
