"""The cookie that holds a session of the dashboard: its name, and its value as it was sent."""

from __future__ import annotations

import base64
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp.web import BaseRequest

# Cookies of this service have about 300 bytes; much longer ones are ignored.
_MAX_LENGTH: Final = 1_000


def read_session_cookie(request: BaseRequest) -> str:
    """Return the value of the session cookie, which may be forged; empty if it has none.

    A value that is not canonical base64 is ignored, so each session has exactly one value.
    """
    value = request.cookies.get(cookie_name(request), "")
    return value if len(value) <= _MAX_LENGTH and _is_canonical(value) else ""


def cookie_name(request: BaseRequest) -> str:
    """Return the name of the cookie.

    Browsers accept a `__Host-` cookie over HTTPS only. On loopback, the name contains the port,
    because cookies are shared by all ports of a host.
    """
    host, port = _split_host(request)
    return f"mergewatch-{port}" if _is_loopback(host) else "__Host-mergewatch"


def is_loopback(request: BaseRequest) -> bool:
    """Whether the browser reaches the service on its own machine, where plain HTTP is safe."""
    return _is_loopback(_split_host(request)[0])


def _is_canonical(text: str) -> bool:
    # The decoder skips characters that are not of its alphabet, and ignores bits at the end.
    try:
        return base64.urlsafe_b64encode(base64.urlsafe_b64decode(text)).decode() == text
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split_host(request: BaseRequest) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{request.headers.get('Host', '')}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return "", 0
    return host, port
