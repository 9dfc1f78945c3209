"""Renders templates to responses, with the headers that every page has."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from service.http.response_headers import RESPONSE_HEADERS
from service.ui import formats
from service.ui.assets import version_of

_TEMPLATES: Final = Path(__file__).parent / "templates"

# Pages load nothing from other sites and run no inline scripts.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PAGE_HEADERS: Final[Mapping[str, str]] = {
    **RESPONSE_HEADERS,
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer`, browsers would send `Origin: null` with forms, which are then refused.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    # A later user of the browser must not see pages of this session.
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding",
}
# Compressing a smaller body costs more than it saves.
_MIN_PACKED_BYTES: Final = 1_000
_LEVEL: Final = 5


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        visible=formats.show_text,
        brief=formats.show_briefly,
        count_of=formats.show_count,
        duration=formats.show_duration,
        exactly=formats.show_exactly,
        lines=partial(formats.show_text, lines=True),
        moment=formats.read_moment,
        number=formats.show_number,
        ratio=formats.show_ratio,
        reason=formats.show_reason,
        short_name=formats.shorten_name,
        sentence=formats.start_sentence,
        split_name=formats.split_name,
        strip=formats.draw_strip,
    )
    environment.globals.update(age=formats.show_age, version_of=version_of)
    return environment


@cache
def _load(name: str) -> Template:
    return _environment().get_template(name)


async def render(
    request: web.Request, template: str, values: Mapping[str, Any], status: int
) -> web.Response:
    """Return the response of a page, rendered in a thread so that long lists block no request."""
    packs = "gzip" in request.headers.get("Accept-Encoding", "")
    body, packed = await asyncio.to_thread(_make_body, template, values, packs=packs)
    headers = dict(PAGE_HEADERS)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(status=status, body=body, headers=headers)


def _make_body(template: str, values: Mapping[str, Any], *, packs: bool) -> tuple[bytes, bool]:
    """Return the body, and whether it is compressed."""
    body = _load(template).render(values).encode("utf-8", "replace")
    if not packs or len(body) < _MIN_PACKED_BYTES:
        return body, False
    return gzip.compress(body, _LEVEL), True
