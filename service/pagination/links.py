"""The links of a page: to the first, previous, next and last page of its list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from aiohttp import web
from multidict import CIMultiDict

from service.http import problems
from service.http.problems import Problem
from service.http.query_string import CURSOR_FIELD, encode_raw
from service.http.targets import MAX_TARGET_BYTES
from service.pagination.cursor import (
    Position,
    Window,
)
from service.pagination.page_ends import Ends
from service.pagination.paginator import ListQuery, Paginator

K = TypeVar("K")

# The longest `Link` field: aiohttp's client stops at 8,190 bytes with the name.
MAX_FIELD_BYTES: Final = 8_180
# All of them together: Node stops at 16 KiB for all headers, of which the others have 2 KiB.
MAX_LINK_BYTES: Final = 14_000

# RFC 3986, section 3.2.2, without the characters that no host name has.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._\-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def links(
    request: web.Request,
    public_url: str | None,
    paginator: Paginator[K],
    query: ListQuery,
    ends: Ends[bytes],
    *,
    backward: bool,
    window: Window | None = None,
) -> CIMultiDict[str]:
    """The `Link` header (RFC 8288) of a page that ends there, in packed keys.

    One field, or one for each link where that would be too long for clients. Where all together
    would be, some are left out; those that lead on in the reading direction come first.

    Raises:
        Problem: 400 where links have to be made from a `Host` header that is none; 414 where a
            link would be too long.
    """
    base = public_url if public_url is not None else f"http://{_host(request)}"
    path = encode_raw(request.rel_url.raw_path)
    lasting = len(path) + 1 + len(query.before) + len(query.after)
    if lasting > MAX_TARGET_BYTES + 1:
        # What was sent without being percent-encoded grows.
        raise problems.target_too_long()

    def write(relation: str, position: Position[bytes]) -> str:
        cursor = paginator.cursor(position)
        if lasting + len(CURSOR_FIELD) + 1 + len(cursor) > MAX_TARGET_BYTES:
            cursor = paginator.short_cursor(position)
        target = f"{path}?{query.before}{CURSOR_FIELD}={cursor}{query.after}"
        return f'<{base}{target}>; rel="{relation}"'

    values = {
        relation: write(relation, Position(key, towards_start, window))
        for relation, key, towards_start in _relations(ends)
    }
    if max(map(len, values.values())) > MAX_FIELD_BYTES:
        raise problems.target_too_long()
    fitting = [*_fitting(values, backward=backward)]
    joined = ", ".join(fitting)
    return CIMultiDict(
        (("Link", value) for value in fitting)
        if len(joined) > MAX_FIELD_BYTES
        else [("Link", joined)]
    )


def _relations(ends: Ends[bytes]) -> Iterator[tuple[str, bytes | None, bool]]:
    """Each link's relation, the key that its page lies beside, and whether it is read backward."""
    yield "first", None, False
    if ends.has_previous:
        # A page may be empty because its rows are gone: what lies before it is the list's end.
        yield "prev", ends.first, True
    if ends.has_next:
        yield "next", ends.last, False
    yield "last", None, True


def _fitting(values: Mapping[str, str], *, backward: bool) -> Iterator[str]:
    """The links that fit into the headers of an answer, in their order."""
    order = ("prev", "next", "last", "first") if backward else ("next", "prev", "first", "last")
    room = MAX_LINK_BYTES
    kept = set()
    for relation in order:
        if relation in values and len(values[relation]) <= room:
            room -= len(values[relation])
            kept.add(relation)
    return (value for relation, value in values.items() if relation in kept)


def _host(request: web.Request) -> str:
    hosts = request.headers.getall("Host", ())
    # RFC 9112, section 3.2, asks for a 400 here.
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise Problem(400, "exactly one well-formed Host header is required")
    return hosts[0]
