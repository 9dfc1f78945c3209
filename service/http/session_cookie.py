"""The cookie that holds a session of the dashboard: its name, and its value as it was sent."""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import urlsplit

from aiohttp.web import BaseRequest

from indexing.loopback import is_loopback

# Cookies of this service have about 300 bytes; much longer ones are ignored.
_MAX_LENGTH: Final = 1_000
SECURE_NAME: Final = "__Host-mergewatch"


def read_session_cookies(request: BaseRequest) -> list[str]:
    """Return the values of the session cookies, which may be forged, in the order of `sent_names`.

    A value that is not canonical base64 is ignored, so each session has exactly one value.
    """
    values = [request.cookies[name] for name in sent_names(request)]
    return [each for each in values if 0 < len(each) <= _MAX_LENGTH and _is_canonical(each)]


def sent_names(request: BaseRequest) -> list[str]:
    """Return the names of the session cookies of a request, the one for HTTPS alone first.

    A request with a `Host` on loopback may have both: a proxy may have replaced that header.
    """
    host, port = _split_host(request)
    names = (SECURE_NAME, _plain_name(port)) if is_loopback(host) else (SECURE_NAME,)
    return [name for name in names if name in request.cookies]


def cookie_name(request: BaseRequest) -> str:
    """Return the name of the cookie to set.

    Browsers accept a `__Host-` cookie over HTTPS only. On loopback, the name contains the port,
    because cookies are shared by all ports of a host.
    """
    return _plain_name(_split_host(request)[1]) if is_on_loopback(request) else SECURE_NAME


def is_on_loopback(request: BaseRequest) -> bool:
    """Whether the browser reaches the service on its own machine, where plain HTTP is safe.

    A proxy may set the address of the service as `Host`. Forms show the scheme in `Origin`.
    """
    scheme = request.headers.get("Origin", "").partition(":")[0] or forwarded_scheme(request)
    return scheme != "https" and is_loopback(_split_host(request)[0])


def forwarded_scheme(request: BaseRequest) -> str:
    """Return the scheme that a proxy states; empty if none does."""
    # Several proxies make a list; the first one saw the browser.
    return request.headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()


def _plain_name(port: int) -> str:
    return f"mergewatch-{port}"


def _is_canonical(text: str) -> bool:
    # The decoder skips characters that are not of its alphabet, and ignores bits at the end.
    try:
        return base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)).decode() == text
    except ValueError:
        return False


def _split_host(request: BaseRequest) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{request.headers.get('Host', '')}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return "", 0
    return host, port
