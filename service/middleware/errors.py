"""The error middleware: gives each request its id, and turns every error into a problem."""

from __future__ import annotations

from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from indexing.errors import StaleKeyError, StoreUnavailableError
from service.http import problems
from service.http.methods import READS
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.request_id import REQUEST_ID_HEADER, choose_request_id
from service.ingest.limiter import LIMITER
from service.logs import request_id
from service.routes import name_operation

_INGEST_IS_OFF: Final = "ingest over HTTP is off: the operator can set MERGEWATCH_INGEST=true"

_log = structlog.get_logger(__name__)


def handle_errors(*, ingest: bool) -> Middleware:
    """A middleware that answers with the handler's response, or with the problem that it raised.

    With `ingest`, results and events are taken over HTTP.
    """

    @web.middleware
    async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in READS:
            return await _answer(request, handler, ingest=ingest)
        # What is sent in is processed to the end, even if its sender goes away meanwhile.
        return await request.app[LIMITER].attend(_answer(request, handler, ingest=ingest))

    return error_middleware


async def _answer(request: web.Request, handler: Handler, *, ingest: bool) -> web.StreamResponse:
    current = choose_request_id(request.headers)
    request_id.set(current)
    try:
        response = await handler(request)
    except Problem as problem:
        response = problems.response(problem)
    except StaleKeyError:
        response = problems.response(problems.stale_cursor())
    except StoreUnavailableError as error:
        _log.warning("store unavailable", reason=str(error))
        response = problems.response(problems.unavailable("the store is unavailable, retry later"))
    except web.HTTPException as error:
        response = problems.response(_explain(request, error, ingest=ingest))
    except Exception:  # noqa: BLE001 - whatever it was, the client gets a problem
        # Not the path itself: it may hold a key that somebody pasted.
        resource = request.match_info.route.resource
        route = None if resource is None else resource.canonical
        _log.exception("unhandled error", method=request.method, route=route)
        response = problems.response(problems.generic(500))
    response.headers[REQUEST_ID_HEADER] = current
    return response


def _explain(request: web.Request, error: web.HTTPException, *, ingest: bool) -> Problem:
    """The problem of a request that no route accepts."""
    problem = problems.from_http_exception(error)
    if not ingest and name_operation(request.method, request.raw_path) in (
        Operation.SEND_EVENTS.value,
        Operation.SEND_TRACES.value,
    ):
        problem.detail = _INGEST_IS_OFF
    return problem
