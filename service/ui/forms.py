"""Reads submitted forms; checks their origin, their CSRF token and their size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Final
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from service.http import problems
from service.http.problems import Problem
from service.ingest.limiter import LIMITER, SMALL_BODY_BYTES
from service.ui.session import Session

FORM_TYPE: Final = "application/x-www-form-urlencoded"
PROOF_FIELD: Final = "csrf"
_MAX_FIELDS: Final = 300

Fields = Mapping[str, list[str]]


async def read_form(
    request: web.Request, session: Session | None, public_url: str | None
) -> Fields:
    """Return the fields of a form, each with its values.

    Raises:
        Problem: 403 if another site or another session sent the form; 400, 413 or 415 if it cannot
            be read.
    """
    if not _is_same_origin(request, public_url):
        raise Problem(403, "this form was sent by another site")
    receiving = request.app[LIMITER].receive(request, (FORM_TYPE,), SMALL_BODY_BYTES)
    async with receiving as body, aclosing(body.read(_parse)) as values:
        fields = await anext(values)
    if session is None or not session.owns_form(first(fields, PROOF_FIELD)):
        raise Problem(403, "this form is too old, or of another session; go back, reload the page")
    return fields


def first(fields: Fields, name: str) -> str:
    """Return the first value of a field, without surrounding spaces; empty if there is none."""
    return fields.get(name, [""])[0].strip()


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
    origin = urlsplit(origins[0])
    if origin.scheme not in ("http", "https") or not origin.netloc:
        return False
    if public_url is not None:
        public = urlsplit(public_url)
        if (origin.scheme, origin.netloc) == (public.scheme, public.netloc):
            return True
    return origin.netloc == request.headers.get("Host")
