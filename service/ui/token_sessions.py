"""Sessions of people who signed in with a token of the code host.

The service needs the token again whenever a decision about it has expired. So it keeps the token,
encrypted, for as long as the session lasts. The key is in the person's cookie alone: neither the
cookie nor what is kept here reveals the token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

import orjson
from cryptography.fernet import Fernet, InvalidToken

from indexing.clocks import Clock
from indexing.names import RepositoryName
from service.cache.confirmed import ConfirmedValues
from service.ui.session import LIFETIME

_KEY_BYTES: Final = 32
_PLACE_BYTES: Final = 16

# How many sessions a token may have at a time, in as many browsers. All share what holds them: who
# signed in again and again could otherwise end the sessions of others, or fill Redis.
MAX_SESSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A token, and the repository that was named with it when its session began."""

    token: str = field(repr=False)
    repository: RepositoryName


class TokenSessions:
    """Keeps tokens by *tickets*, which are secret and stored in no place but a cookie.

    A ticket is a random key, and one of the places of its token. In an earlier release it was the
    key alone. All methods raise `CacheUnavailableError`.
    """

    def __init__(self, values: ConfirmedValues, host_url: str, clock: Clock) -> None:
        self._values = values
        # Another host must never be sent a token of this one.
        self._host = host_url.encode()
        self._clock = clock

    async def begin(self, signed: SignedToken, principal: str) -> str:
        """Keep the token for the lifetime of a session; return its ticket.

        `principal` is the name of the token's principal. If that has `MAX_SESSIONS` already, one of
        them ends.
        """
        ticket = secrets.token_bytes(_KEY_BYTES) + await self._choose_place(principal)
        content = orjson.dumps([signed.token, signed.repository.owner, signed.repository.name])
        encrypted = self._open_fernet(ticket).encrypt_at_time(content, self._read_seconds())
        await self._values.keep(self._name(ticket), encrypted, LIFETIME.total_seconds())
        return base64.urlsafe_b64encode(ticket).decode()

    async def find(self, ticket: str) -> SignedToken | None:
        """Return the token of that ticket; None if its session has ended, or is lost."""
        raw = _decode(ticket)
        encrypted = None if raw is None else await self._values.find(self._name(raw))
        if raw is None or encrypted is None:
            return None
        try:
            content = self._open_fernet(raw).decrypt_at_time(
                encrypted, int(LIFETIME.total_seconds()), self._read_seconds()
            )
        except InvalidToken:
            return None
        token, owner, name = orjson.loads(content)
        return SignedToken(token, RepositoryName(owner, name))

    async def end(self, ticket: str) -> None:
        """Forget the token of that ticket."""
        raw = _decode(ticket)
        # Its place may have another session by now.
        if raw is not None and await self.find(ticket) is not None:
            await self._values.drop(self._name(raw))

    async def _choose_place(self, principal: str) -> bytes:
        """Return a free place of the principal, or any of them if all are taken."""
        places = [
            hmac.digest(principal.encode(), b"place %d\0" % number + self._host, "sha256")
            for number in range(MAX_SESSIONS)
        ]
        cut = [place[:_PLACE_BYTES] for place in places]
        held = await asyncio.gather(*(self._values.find(place.hex()) for place in cut))
        free = [place for place, value in zip(cut, held, strict=True) if value is None]
        return secrets.choice(free or cut)

    def _name(self, ticket: bytes) -> str:
        place = ticket[_KEY_BYTES:]
        if len(place) == _PLACE_BYTES:
            return place.hex()
        return hmac.digest(ticket, b"name\0" + self._host, "sha256").hex()

    def _open_fernet(self, ticket: bytes) -> Fernet:
        key = hmac.digest(ticket[:_KEY_BYTES], b"key\0" + self._host, "sha256")
        return Fernet(base64.urlsafe_b64encode(key))

    def _read_seconds(self) -> int:
        return int(self._clock().timestamp())


def _decode(ticket: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(ticket)
    except (binascii.Error, ValueError):
        return None
