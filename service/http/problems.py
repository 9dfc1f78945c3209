"""Problem bodies (RFC 9457) and the errors that become one. Knows no route and no store.

The request id travels in a header alone, so that equal problems are equal to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

from service.http.field_errors import FieldError
from service.http.targets import MAX_TARGET_BYTES
from service.schemas.compiled import compile_encoder
from service.schemas.responses import InvalidAnswer, ProblemAnswer

PROBLEM_TYPE: Final = "application/problem+json"

_encode: Final = compile_encoder(ProblemAnswer)
_encode_invalid: Final = compile_encoder(InvalidAnswer)

# How long a client should wait, in seconds: for a store that is locked or being restarted, or until
# what it has open has ended.
RETRY_AFTER: Final = 5

# Python's own phrases for these change between versions.
TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Content too large",
    414: "URI too long",
    415: "Unsupported media type",
    417: "Expectation failed",
    422: "Unprocessable entity",
    429: "Too many requests",
    500: "Internal server error",
    503: "Service unavailable",
}

DETAILS: Final[Mapping[int, str]] = {
    400: (
        "the request is malformed HTTP, a header is too long, or the target has characters that "
        "are not percent-encoded"
    ),
    404: "this path does not exist",
    405: "this path does not support this method; the Allow header lists the methods it does",
    413: "the request body is too large",
    414: f"the request target is longer than {MAX_TARGET_BYTES} bytes, percent-encoded",
    417: "the expectation in the Expect header cannot be met",
    500: "internal error; the server log has the details under the request id",
}


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it a problem, not an error
    """An error response. The client sees `detail` as it is."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})

    @property
    def type(self) -> str:
        """The type of the problem; by RFC 9457, this one adds nothing to the status."""
        return "about:blank"

    @property
    def title(self) -> str:
        """The title of the status."""
        return TITLES.get(self.status, "Error")


def forbidden() -> Problem:
    """Refuse a credential, with the same problem for every reason."""
    return Problem(403, "a valid credential is needed: Authorization: Bearer <key>")


def missing_repository() -> Problem:
    """Refuse a token of the code host because the request names no repository."""
    return Problem(
        403,
        "a token of the code host covers one repository at a time: name it in the parameter"
        " repository",
    )


def missing_scope(scope: str, *needed: str) -> Problem:
    """Refuse a credential of this scope that covers the repository, but not the operation."""
    *others, last = needed
    either = f"{', '.join(others)} or {last}" if others else last
    return Problem(
        403, f"the scope {scope} does not cover this operation, which needs the scope {either}"
    )


def not_found(what: str) -> Problem:
    """Report that `what` does not exist, or is not visible to this principal."""
    return Problem(404, f"there is no such {what}, or it is not visible to this key")


def stale_cursor() -> Problem:
    """Refuse an authentic cursor that can no longer be continued."""
    return Problem(
        409,
        "this cursor is no longer valid, because its data is gone; start again without a cursor",
    )


def invalid(errors: Sequence[FieldError]) -> Problem:
    """Refuse a request whose fields are wrong, naming all of them."""
    return Problem(422, "some parameters are invalid", errors=errors)


def conflict(detail: str) -> Problem:
    """Refuse a change that the current state does not allow."""
    return Problem(409, detail)


def malformed(detail: str) -> Problem:
    """Refuse a request whose body, or a header field of it, cannot be read."""
    return Problem(400, detail)


def too_large(detail: str) -> Problem:
    """Refuse a body that is too large, or contains too many items."""
    return Problem(413, detail)


def target_too_long() -> Problem:
    """Refuse a request target that is too long."""
    return generic(414)


def unsupported(detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """Refuse a body with an unsupported media type or content encoding."""
    return Problem(415, detail, headers=headers)


def too_many(seconds: int) -> Problem:
    """Refuse a principal that has used up its requests; it may retry after `seconds`."""
    return Problem(
        429,
        "rate limit exceeded; Retry-After says how long to wait",
        headers={"Retry-After": str(seconds)},
    )


def too_many_open(detail: str) -> Problem:
    """Refuse a credential that has too much open at a time, until some of it has ended."""
    return Problem(429, detail, headers={"Retry-After": str(RETRY_AFTER)})


def unavailable(detail: str, seconds: int = RETRY_AFTER) -> Problem:
    """Report that the service is unavailable, and that a retry after `seconds` may succeed."""
    return Problem(503, detail, headers={"Retry-After": str(seconds)})


def store_unavailable() -> Problem:
    """Report that the store does not answer, and that a retry may succeed."""
    return unavailable("the store is unavailable, retry later")


def generic(status: int) -> Problem:
    """Return the problem for a status that needs no detail of its own."""
    return Problem(status, DETAILS.get(status, "the request cannot be processed"))


def body(problem: Problem) -> bytes:
    """Return the JSON text of a problem."""
    return _encode_invalid(problem) if problem.errors else _encode(problem)


def response(problem: Problem) -> web.Response:
    """Return the HTTP response of a problem."""
    return web.Response(
        status=problem.status,
        body=body(problem),
        content_type=PROBLEM_TYPE,
        # The same request may succeed a moment later.
        headers={"Cache-Control": "no-store", **problem.headers},
    )


def from_http_exception(error: web.HTTPException) -> Problem:
    """Return the problem of an aiohttp error, with its `Allow` header."""
    problem = generic(error.status)
    allow = error.headers.get("Allow")
    if allow is not None:
        problem.headers["Allow"] = allow
    return problem
