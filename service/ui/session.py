"""Sessions: an encrypted cookie that holds no credential, but says how to find one.

That is the id of an application key, or the ticket of a token (`service.ui.token_sessions`). The
cookie alone grants no access: the credential is checked again for every request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import orjson
from aiohttp import web
from cryptography.fernet import Fernet, InvalidToken

from indexing.clocks import Clock
from service.http.session_cookie import (
    SECURE_NAME,
    cookie_name,
    read_session_cookies,
    sent_names,
)

LIFETIME: Final = timedelta(hours=8)
_SECRET_BYTES: Final = 16
_NONCE_BYTES: Final = 12


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

    def __init__(self, secret: bytes, clock: Clock) -> None:
        # `person` derives a key that differs from those of other uses of the secret.
        key = hashlib.blake2b(secret, digest_size=32, person=b"session").digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))
        self._clock = clock

    def new(self, key_id: str | None = None, ticket: str | None = None) -> Session:
        """Return a session that begins now."""
        return Session(secrets.token_hex(_SECRET_BYTES), self._clock(), key_id, ticket)

    def read(self, request: web.Request) -> Session | None:
        """Return the session of a request; None if it has no valid cookie or the session ended.

        Of two valid cookies, the one for HTTPS alone counts.
        """
        return next(filter(None, map(self._decrypt, read_session_cookies(request))), None)

    def _decrypt(self, cookie: str) -> Session | None:
        try:
            content = self._fernet.decrypt_at_time(
                cookie, int(LIFETIME.total_seconds()), int(self._clock().timestamp())
            )
        except InvalidToken:
            return None
        form_secret, since, *credential = orjson.loads(content)
        return Session(form_secret, datetime.fromisoformat(since), *credential)

    def write(self, request: web.Request, response: web.StreamResponse, session: Session) -> None:
        """Set the session cookie, in place of those that the request has."""
        # Processes of an earlier release read cookies of three parts.
        ticket = [] if session.ticket is None else [session.ticket]
        content = orjson.dumps(
            [session.form_secret, session.since.isoformat(), session.key_id, *ticket]
        )
        cookie = self._fernet.encrypt_at_time(content, int(session.since.timestamp()))
        name = cookie_name(request)
        response.set_cookie(
            name,
            cookie.decode(),
            max_age=int(LIFETIME.total_seconds()),
            path="/",
            secure=name == SECURE_NAME,
            httponly=True,
            samesite="Lax",
        )
        _delete(response, [each for each in sent_names(request) if each != name])

    def remove(self, request: web.Request, response: web.StreamResponse) -> None:
        """Delete the session cookies of a request."""
        _delete(response, sent_names(request))


def _delete(response: web.StreamResponse, names: Iterable[str]) -> None:
    for name in names:
        response.del_cookie(
            name, path="/", secure=name == SECURE_NAME, httponly=True, samesite="Lax"
        )
