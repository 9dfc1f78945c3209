"""Who is signed in: an encrypted cookie that holds the id of a key, and a secret for forms.

The cookie opens nothing by itself: the key is looked up again for every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
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
# A cookie is some 250 bytes; a longer one is not of this service.
_MAX_COOKIE_LENGTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Session:
    """A session; without a `key_id` nobody is signed in yet. `form_secret` proves its forms."""

    form_secret: str
    since: datetime
    key_id: str | None = None

    @property
    def ends_at(self) -> datetime:
        """When it ends, whatever happens."""
        return self.since + LIFETIME

    def make_form_token(self) -> str:
        """A token that proves a form to be of this session, different each time.

        What never changes in a compressed page could be guessed letter by letter from its size.
        """
        nonce = secrets.token_hex(_NONCE_BYTES)
        return f"{nonce}.{self._sign(nonce)}"

    def owns_form(self, token: str) -> bool:
        """Whether `make_form_token` of this session made that token."""
        nonce, _, code = token.partition(".")
        return hmac.compare_digest(code.encode(), self._sign(nonce).encode())

    def _sign(self, nonce: str) -> str:
        return hmac.digest(self.form_secret.encode(), nonce.encode(), "sha256").hex()


class Sessions:
    """Reads and writes the cookies of sessions. All processes with one secret read all of them."""

    def __init__(self, secret: bytes, clock: Callable[[], datetime]) -> None:
        # The name keeps this key apart from the other uses of the secret.
        key = hashlib.blake2b(secret, digest_size=32, person=b"session").digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._clock = clock

    def new(self, key_id: str | None = None) -> Session:
        """A session that begins now."""
        return Session(secrets.token_hex(_SECRET_BYTES), self._clock(), key_id)

    def read(self, request: web.Request) -> Session | None:
        """The session of a request, if it has one that this service made and has not ended."""
        cookie = request.cookies.get(cookie_name(request), "")
        if not cookie or len(cookie) > _MAX_COOKIE_LENGTH:
            return None
        try:
            content = self._fernet.decrypt_at_time(
                cookie, int(LIFETIME.total_seconds()), int(self._clock().timestamp())
            )
        except InvalidToken:
            return None
        form_secret, since, key_id = orjson.loads(content)
        return Session(form_secret, datetime.fromisoformat(since), key_id)

    def write(self, request: web.Request, response: web.StreamResponse, session: Session) -> None:
        """Put the session into the browser."""
        content = orjson.dumps([session.form_secret, session.since.isoformat(), session.key_id])
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
        """Remove the session from the browser."""
        response.del_cookie(
            cookie_name(request),
            path="/",
            secure=not is_loopback(request),
            httponly=True,
            samesite="Lax",
        )


def cookie_name(request: web.Request) -> str:
    """The name of the cookie: one that browsers take over HTTPS alone, but for loopback.

    Cookies do not tell ports apart, so the name does.
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
