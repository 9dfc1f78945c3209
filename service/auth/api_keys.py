"""Application keys: their text, who a request comes from, and what a scope opens.

No key's text is kept, logged or put into an error.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

from multidict import CIMultiDictProxy

from indexing.models.keys import ApplicationKey, Scope
from indexing.names import RepositoryName
from service.auth.principal import Caller, holder_of_key
from service.http import problems
from service.http.operations import Operation

KEY_PREFIX: Final = "mw_"
KEY_RANDOM_BYTES: Final = 32
# Short enough to type, and never met twice among the keys of one store.
KEY_ID_BYTES: Final = 6
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The lengths that the largest values take in base 62.
_RANDOM_LENGTH: Final = 43
_CHECKSUM_LENGTH: Final = 6
_KEY: Final = re.compile(
    f"{KEY_PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH}}}([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})"
)
# RFC 9110, section 11.4: the scheme's case does not matter, one or more spaces follow it.
_BEARER: Final = re.compile(r"bearer +([^ ]+) *", re.IGNORECASE)


_WRITES: Final = frozenset({Operation.SEND_EVENTS, Operation.SEND_TRACES})

# A CI plugin uses one key to send results and to ask what is quarantined.
OPERATIONS: Final[Mapping[Scope, frozenset[Operation]]] = {
    Scope.READ: frozenset(Operation) - _WRITES,
    Scope.INGEST: frozenset({Operation.QUARANTINES, Operation.QUARANTINE}) | _WRITES,
    Scope.ADMIN: frozenset(Operation),
}


def make_key_id() -> str:
    """A new name for a key in commands; it opens nothing."""
    return secrets.token_hex(KEY_ID_BYTES)


def make_key(
    *,
    key_id: str,
    name: str,
    scope: Scope,
    owner: str,
    repository: str | None,
    created_at: datetime,
    expires_at: datetime | None = None,
) -> tuple[str, ApplicationKey]:
    """Make a new key: its text, to be shown once, and the record to be stored."""
    random = int.from_bytes(secrets.token_bytes(KEY_RANDOM_BYTES), "big")
    unchecked = KEY_PREFIX + _base62(random, _RANDOM_LENGTH)
    text = unchecked + _checksum(unchecked)
    record = ApplicationKey(
        id=key_id,
        name=name,
        scope=scope,
        owner=owner,
        repository=repository,
        digest=digest_key(text),
        created_at=created_at,
        expires_at=expires_at,
    )
    return text, record


def digest_key(text: str) -> bytes:
    """What a key is stored and found by."""
    return hashlib.sha256(text.encode()).digest()


def is_key(text: str) -> bool:
    """Whether the text has the form of a key and its checksum is right."""
    match = _KEY.fullmatch(text)
    return match is not None and match[1] == _checksum(text[:-_CHECKSUM_LENGTH])


class Directory(Protocol):
    """Who may ask, and what repositories there are."""

    async def find_key(self, digest: bytes) -> ApplicationKey | None:
        """The application key with that SHA-256, revoked and expired ones included."""

    async def find_repository(self, name: RepositoryName) -> RepositoryName | None:
        """The spelling of a known repository."""


def read_bearer(headers: CIMultiDictProxy[str]) -> str:
    """The one credential that a request carries.

    Raises:
        Problem: 403 when it carries none, or more than one, or a mistyped application key.
    """
    values = headers.getall("Authorization", ())
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    # A mistyped key is told from an unknown one without asking the store, and nobody else is shown
    # what is almost a key.
    if match is None or (match[1].startswith(KEY_PREFIX) and not is_key(match[1])):
        raise problems.forbidden()
    return match[1]


async def authenticate(digest: bytes, directory: Directory, now: datetime) -> Caller:
    """Find whose key has that digest.

    Raises:
        Problem: 403 when it is not good, the same for every reason.
    """
    key = await directory.find_key(digest)
    if key is None or not hmac.compare_digest(key.digest, digest):
        raise problems.forbidden()
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
        raise problems.forbidden()
    return holder_of_key(key)


async def find_visible(
    caller: Caller, name: RepositoryName, directory: Directory
) -> RepositoryName:
    """Find a repository that the caller sees, in the spelling that holds.

    Raises:
        Problem: 404, alike for one that is absent and one that is not visible.
    """
    # A foreign repository is never looked up, so that not even the time taken tells of it.
    found = await directory.find_repository(name) if caller.covers(name) else None
    if found is None:
        raise problems.not_found("repository")
    return found


async def find_writable(
    caller: Caller, name: RepositoryName, operation: Operation, directory: Directory
) -> RepositoryName:
    """Find a repository that the caller may write to, known or not, in the spelling that holds.

    Raises:
        Problem: 404 as for `find_visible`, save that one which is not known yet is there for a key
            that may make it known; 403 where the scope does not cover the operation.
    """
    if operation in OPERATIONS[caller.scope] and caller.covers(name):
        return await directory.find_repository(name) or name
    await find_visible(caller, name, directory)
    raise problems.missing_scope()


def require_scope(caller: Caller, operation: Operation) -> None:
    """Raise a 403 `Problem` when the caller's scope does not cover the operation."""
    if operation not in OPERATIONS[caller.scope]:
        raise problems.missing_scope()


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), _CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
