"""Sign-in links: printed once, valid for ten minutes, and accepted once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from indexing.clocks import Clock
from service.cache.backend import CacheBackend

LIFETIME: Final = timedelta(minutes=10)
# The page that accepts the link, and its query parameter.
SIGN_IN: Final = "sign-in"
LINK_FIELD: Final = "link"
# The query parameter that names the page to open then, relative to the dashboard.
NEXT_FIELD: Final = "next"
# The query parameter that says that a session has ended.
ENDED_FIELD: Final = "ended"
_NONCE_BYTES: Final = 12
_MAC_SIZE: Final = 32
_MAX_LENGTH: Final = 400


def make_link(secret: bytes, key_id: str, now: datetime) -> str:
    """Return the token of a link that signs in with the key, valid for `LIFETIME`."""
    until = int((now + LIFETIME).timestamp())
    payload = orjson.dumps([key_id, until, secrets.token_hex(_NONCE_BYTES)])
    return base64.urlsafe_b64encode(payload + _sign(secret, payload)).rstrip(b"=").decode()


class SignInLinks:
    """Accepts each link once, even across processes if they share a Redis."""

    def __init__(self, secret: bytes, backend: CacheBackend, clock: Clock) -> None:
        self._secret = secret
        self._backend = backend
        self._clock = clock
        # The expiry of each link that this process accepted, by nonce.
        self._used: dict[str, datetime] = {}

    async def redeem(self, link: str) -> str | None:
        """Return the id of the key that the link signs in with; None if it is no longer valid."""
        payload = _verify(self._secret, link)
        if payload is None:
            return None
        key_id, until, nonce = orjson.loads(payload)
        now, end = self._clock(), datetime.fromtimestamp(until, UTC)
        self._used = {used: ends for used, ends in self._used.items() if ends > now}
        if end <= now or nonce in self._used:
            return None
        self._used[nonce] = end
        shared = await self._backend.count(f"link::{nonce}", LIFETIME.total_seconds(), 1)
        return str(key_id) if shared is None or shared[0] == 1 else None


def _verify(secret: bytes, link: str) -> bytes | None:
    if len(link) > _MAX_LENGTH or not link.isascii():
        return None
    try:
        data = base64.urlsafe_b64decode(link + "=" * (-len(link) % 4))
    except (binascii.Error, ValueError):
        return None
    payload, mac = data[:-_MAC_SIZE], data[-_MAC_SIZE:]
    return payload if hmac.compare_digest(mac, _sign(secret, payload)) else None


def _sign(secret: bytes, payload: bytes) -> bytes:
    # `person` derives a key that differs from those of other uses of the secret.
    key = hashlib.blake2b(secret, digest_size=32, person=b"sign-in link").digest()
    return hmac.digest(key, payload, "sha256")
