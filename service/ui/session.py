"""Sessions: an encrypted cookie that holds no credential, but says how to find one.

That is the id of an application key, or the ticket of a token (`service.ui.token_sessions`). The
cookie alone grants no access: the credential is checked again for every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from cryptography.fernet import Fernet, InvalidToken

LIFETIME: Final = timedelta(hours=8)
_SECRET_BYTES: Final = 16
_NONCE_BYTES: Final = 12
# Cookies of this service have about 300 bytes; much longer ones are ignored.
_MAX_COOKIE_LENGTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Session:
    """A session, with the id of a key or the ticket of a token; with neither, nobody is signed in.

    `form_secret` signs its CSRF tokens.
    """

    form_secret: str
    since: datetime
    key_id: str | None = None
    ticket: str | None = field(default=None, repr=False)

    @property
    def is_signed_in(self) -> bool:
        """Whether the session has a credential, which may not be valid any more."""
        return self.key_id is not None or self.ticket is not None

    @property
    def ends_at(self) -> datetime:
        """The time at which the session ends; it is not renewed."""
        return self.since + LIFETIME

    def make_form_token(self) -> str:
        """Return a CSRF token of this session, different each time.

        A constant token in a compressed page could be guessed from the page's size (BREACH attack).
        """
        nonce = secrets.token_hex(_NONCE_BYTES)
        return f"{nonce}.{self._sign(nonce)}"

    def owns_form(self, token: str) -> bool:
        """Whether `make_form_token` of this session made the token."""
        nonce, _, code = token.partition(".")
        return hmac.compare_digest(code.encode(), self._sign(nonce).encode())

    def _sign(self, nonce: str) -> str:
        return hmac.digest(self.form_secret.encode(), nonce.encode(), "sha256").hex()


class Sessions:
    """Reads and writes session cookies, which all processes with the same secret can read."""

    def __init__(self, secret: bytes, clock: Callable[[], datetime]) -> None:
        # `person` derives a key that differs from those of other uses of the secret.
        key = hashlib.blake2b(secret, digest_size=32, person=b"session").digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._clock = clock

    def new(self, key_id: str | None = None, ticket: str | None = None) -> Session:
        """Return a session that begins now."""
        return Session(secrets.token_hex(_SECRET_BYTES), self._clock(), key_id, ticket)

    def read(self, request: web.Request) -> Session | None:
        """Return the session of a request; None if it has no valid cookie or the session ended."""
        cookie = request.cookies.get(cookie_name(request), "")
        if not cookie or len(cookie) > _MAX_COOKIE_LENGTH:
            return None
        try:
            content = self._fernet.decrypt_at_time(
                cookie, int(LIFETIME.total_seconds()), int(self._clock().timestamp())
            )
        except InvalidToken:
            return None
        form_secret, since, *credential = orjson.loads(content)
        return Session(form_secret, datetime.fromisoformat(since), *credential)

    def write(self, request: web.Request, response: web.StreamResponse, session: Session) -> None:
        """Set the session cookie."""
        # Processes of an earlier release read cookies of three parts.
        ticket = [] if session.ticket is None else [session.ticket]
        content = orjson.dumps(
            [session.form_secret, session.since.isoformat(), session.key_id, *ticket]
        )
        cookie = self._fernet.encrypt_at_time(content, int(session.since.timestamp()))
        response.set_cookie(
            cookie_name(request),
            cookie.decode(),
            max_age=int(LIFETIME.total_seconds()),
            path="/",
            secure=not is_loopback(request),
            httponly=True,
            samesite="Lax",
        )

    def remove(self, request: web.Request, response: web.StreamResponse) -> None:
        """Delete the session cookie."""
        response.del_cookie(
            cookie_name(request),
            path="/",
            secure=not is_loopback(request),
            httponly=True,
            samesite="Lax",
        )


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie.

    Browsers accept a `__Host-` cookie over HTTPS only. On loopback, the name contains the port,
    because cookies are shared by all ports of a host.
    """
    host, port = _split_host(request)
    return f"mergewatch-{port}" if _is_loopback(host) else "__Host-mergewatch"


def is_loopback(request: web.Request) -> bool:
    """Whether the browser reaches the service on its own machine, where plain HTTP is safe."""
    return _is_loopback(_split_host(request)[0])


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _split_host(request: web.Request) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{request.headers.get('Host', '')}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return "", 0
    return host, port
