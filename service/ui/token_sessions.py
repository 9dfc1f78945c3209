"""Sessions of people who signed in with a token of the code host.

The service needs the token again whenever a decision about it has expired. So it keeps the token,
encrypted, for as long as the session lasts. The key is in the person's cookie alone: neither the
cookie nor what is kept here reveals the token.
"""

from __future__ import annotations

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

_TICKET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A token, and the repository that was named with it when its session began."""

    token: str = field(repr=False)
    repository: RepositoryName


class TokenSessions:
    """Keeps tokens by *tickets*, random texts that are secret and stored in no place but a cookie.

    All methods raise `CacheUnavailableError`.
    """

    def __init__(self, values: ConfirmedValues, host_url: str, clock: Clock) -> None:
        self._values = values
        # Another host must never be sent a token of this one.
        self._host = host_url.encode()
        self._clock = clock

    async def begin(self, signed: SignedToken) -> str:
        """Keep the token for the lifetime of a session; return its ticket."""
        ticket = secrets.token_bytes(_TICKET_BYTES)
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
        if raw is not None:
            await self._values.drop(self._name(raw))

    def _name(self, ticket: bytes) -> str:
        return hmac.digest(ticket, b"name\0" + self._host, "sha256").hex()

    def _open_fernet(self, ticket: bytes) -> Fernet:
        key = hmac.digest(ticket, b"key\0" + self._host, "sha256")
        return Fernet(base64.urlsafe_b64encode(key))

    def _read_seconds(self) -> int:
        return int(self._clock().timestamp())


def _decode(ticket: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(ticket)
    except (binascii.Error, ValueError):
        return None
