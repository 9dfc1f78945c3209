"""Reads submitted forms; checks their origin, their CSRF token and their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from indexing.fairness import current_tenant
from service.http import problems
from service.http.problems import Problem
from service.ingest.limiter import LIMITER, SMALL_BODY_BYTES, too_much_at_once
from service.middleware.admission_control import ADMISSION_CONTROL
from service.ui.session import Session

FORM_TYPE: Final = "application/x-www-form-urlencoded"
PROOF_FIELD: Final = "csrf"
_MAX_FIELDS: Final = 300
# A form of the largest size takes this long at 50 kilobits a second.
FORM_SECONDS: Final = 10.0
# How many forms of one tenant may be on their way. All people who are not signed in are one tenant,
# and theirs hold 4 MiB at most, a quarter of the room that is kept for small request bodies.
MAX_UNREAD_PER_TENANT: Final = 64

# The forms of this process that are on their way.
_unread: Final[Counter[Hashable]] = Counter()

Fields = Mapping[str, list[str]]


class OldFormProblem(Problem):
    """The form was made in another session than the one that sends it."""

    def __init__(self) -> None:
        detail = "this form is too old, or of another session; go back, reload the page"
        super().__init__(403, detail)


async def read_form(
    request: web.Request, session: Session | None, public_url: str | None
) -> Fields:
    """Return the fields of a form, each with its values.

    Raises:
        OldFormProblem: another session sent the form, or none.
        Problem: 403 if another site sent the form; 400, 413 or 415 if it cannot be read; 503 if too
            many forms are on their way.
    """
    if not _is_same_origin(request, public_url):
        raise Problem(403, "this form was sent by another site")
    if request.content.is_eof():
        # Most forms arrive with their head, so nobody is waited for.
        fields = await _receive(request)
    else:
        with _without_slot(request):
            fields = await _receive(request)
        await request.app[ADMISSION_CONTROL].take_slot(request)
    if session is None or not session.owns_form(first(fields, PROOF_FIELD)):
        raise OldFormProblem
    return fields


def first(fields: Fields, name: str) -> str:
    """Return the first value of a field, without surrounding spaces; empty if there is none."""
    return fields.get(name, [""])[0].strip()


@contextmanager
def _without_slot(request: web.Request) -> Iterator[None]:
    """Release the slot of a request, because its form takes as long as the client takes.

    Clients without a credential could otherwise hold all slots by sending nothing.

    Raises:
        Problem: 503 if too many forms of the tenant are on their way.
    """
    tenant = current_tenant.get()
    if _unread[tenant] >= MAX_UNREAD_PER_TENANT:
        raise too_much_at_once()
    request.app[ADMISSION_CONTROL].release_slot(request)
    _unread[tenant] += 1
    try:
        yield
    finally:
        _unread[tenant] -= 1
        if not _unread[tenant]:
            del _unread[tenant]


async def _receive(request: web.Request) -> Fields:
    # Reading a body sets another tenant: the sender, who may have made up a cookie.
    tenant = current_tenant.get()
    limits = ((FORM_TYPE,), SMALL_BODY_BYTES, FORM_SECONDS)
    try:
        async with (
            request.app[LIMITER].receive(request, *limits) as body,
            aclosing(body.read(_parse)) as values,
        ):
            return await anext(values)
    finally:
        current_tenant.set(tenant)


def _parse(content: bytes) -> Iterator[Fields]:
    try:
        fields = parse_qs(content.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise problems.malformed("the form cannot be read") from error
    # Browsers count a line break as one character, but send two.
    yield {name: [each.replace("\r\n", "\n") for each in found] for name, found in fields.items()}


def _is_same_origin(request: web.Request, public_url: str | None) -> bool:
    """Whether a page of this service sent the request; browsers send `Origin` with every POST."""
    origins = request.headers.getall("Origin", ())
    if len(origins) != 1:
        return False
    try:
        origin = urlsplit(origins[0])
    except ValueError:
        return False
    if origin.scheme not in ("http", "https") or not origin.netloc:
        return False
    if public_url is not None:
        public = urlsplit(public_url)
        if (origin.scheme, origin.netloc) == (public.scheme, public.netloc):
            return True
    return origin.netloc == request.headers.get("Host")
