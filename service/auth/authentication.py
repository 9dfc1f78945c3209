"""Who a credential belongs to: the owner of an application key, or of a token of the code host.

No credential is kept, logged or put into an error.
"""

from __future__ import annotations

import hmac
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from multidict import CIMultiDictProxy

from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName
from service.auth.api_keys import KEY_PREFIX, is_key
from service.auth.code_host.decisions import Finding, HostUnavailable
from service.auth.code_host.tokens import is_token
from service.auth.principal import KeyName, Principal
from service.http import problems

if TYPE_CHECKING:
    from service.auth.code_host.access import CodeHost

# RFC 9110, section 11.4: the scheme's case does not matter, one or more spaces follow it.
_BEARER: Final = re.compile(r"bearer +([^ ]+) *", re.IGNORECASE)

# No owner has an empty name, so whoever has this one sees nothing.
_NO_OWNER: Final = ""


class KeyDirectory(Protocol):
    """The application keys that exist."""

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        """The application key with that SHA-256, revoked and expired ones included."""


def read_bearer(headers: CIMultiDictProxy[str]) -> str:
    """The one credential that a request carries.

    Raises:
        Problem: 403 when it carries none, or more than one, or a mistyped application key.
    """
    values = headers.getall("Authorization", ())
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    # A mistyped key is recognised by its checksum: the store is not asked, and no other host is
    # shown what is almost a key.
    if match is None or (match[1].startswith(KEY_PREFIX) and not is_key(match[1])):
        raise problems.forbidden()
    return match[1]


async def authenticate(digest: bytes, directory: KeyDirectory, now: datetime) -> Principal:
    """Find whose key has that digest.

    Raises:
        Problem: 403 when the key is not valid, the same for every reason.
    """
    key = await directory.find_key(digest)
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise problems.forbidden()
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        raise problems.forbidden()
    return Principal(
        f"key {key.id}",
        key.scope,
        key.owner,
        key.repository,
        key.expires_at,
        KeyName(key.id, key.name),
    )


def require_code_host(code_host: CodeHost | None, token: str) -> CodeHost:
    """The code host that may have issued the token.

    Raises:
        Problem: 403 where none is configured, or it issues no such token.
    """
    if code_host is None or not is_token(token):
        raise problems.forbidden()
    return code_host


def name_token_holder(code_host: CodeHost, token: str) -> str:
    """The name of the principal that holds the token, whatever it opens."""
    return f"token {code_host.identify(token)}"


async def authenticate_token(code_host: CodeHost, token: str, name: RepositoryName) -> Principal:
    """The principal that holds the token, for that repository alone.

    Raises:
        Problem: 403 where the host does not know the token, 503 where it cannot say.
    """
    decision = await code_host.check(token, name)
    if isinstance(decision, HostUnavailable):
        detail = "the code host is unavailable, so access cannot be checked; retry later"
        raise problems.unavailable(detail, decision.seconds)
    if decision.finding is Finding.BAD_CREDENTIAL:
        raise problems.forbidden()
    principal = name_token_holder(code_host, token)
    if decision.finding is Finding.HIDDEN:
        return Principal(principal, Scope.READ, _NO_OWNER)
    return Principal(principal, Scope.READ, name.owner, name.name, decision.until)
