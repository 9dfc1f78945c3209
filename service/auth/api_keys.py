"""Application keys: how they are made, checked for typing errors, and stored as a digest. Pure."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from datetime import datetime
from functools import lru_cache
from typing import Final

from indexing.models.keys import ApplicationKey, Scope

KEY_PREFIX: Final = "mw_"
KEY_RANDOM_BYTES: Final = 32
# Short enough to type, and long enough to be unique among the keys of one store.
KEY_ID_BYTES: Final = 6
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# The lengths that the largest values take in base 62.
_RANDOM_LENGTH: Final = 43
_CHECKSUM_LENGTH: Final = 6
# How many checksums are cached as text, without the keys that they belong to.
_SPELT_CHECKSUMS: Final = 1_024
_KEY: Final = re.compile(
    f"{KEY_PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH}}}([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})"
)


def make_key_id() -> str:
    """Return a new id for a key, which names it in commands and is no secret."""
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
    """Return the digest by which a key is stored and found."""
    return hashlib.sha256(text.encode()).digest()


def is_key(text: str) -> bool:
    """Whether the text has the form of a key and its checksum is right."""
    match = _KEY.fullmatch(text)
    return match is not None and match[1] == _checksum(text[:-_CHECKSUM_LENGTH])


def _checksum(text: str) -> str:
    return _spell_checksum(zlib.crc32(text.encode()))


@lru_cache(_SPELT_CHECKSUMS)
def _spell_checksum(checksum: int) -> str:
    return _base62(checksum, _CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
