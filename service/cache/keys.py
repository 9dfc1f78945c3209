"""What is cached, under which key, for how long, and what invalidates it. Pure."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from indexing.names import RepositoryName

# Increased whenever the bytes of any cached value change their meaning.
FORMAT: Final = 1

# A revoked key stops working everywhere within 60 seconds, even if the writer that revoked it died
# before it could invalidate anything. That is the sum of three lifetimes: of a shared value, of a
# copy in a process, and of a cached response made from that copy.
LIFETIME: Final = 48.0
COPY_LIFETIME: Final = 5.0
RESPONSE_LIFETIME: Final = 5.0
# Searches are many and seldom repeated: they make room for what is repeated.
SEARCH_LIFETIME: Final = 15.0

# After this time nothing from before a write is left, even if the invalidation was lost.
LONGEST_LIFETIME: Final = LIFETIME + COPY_LIFETIME + RESPONSE_LIFETIME

_DIGEST_SIZE: Final = 16

# Two namespaces beside those of the repositories: of all credentials, and of the whole store.
CREDENTIALS: Final = "credentials"
EVERYTHING: Final = "everything"


class Kind(Enum):
    """The kinds of cached values."""

    KEY = "key"
    REPOSITORY = "repository"
    TEST = "test"
    SEARCH = "search"
    QUARANTINES = "quarantines"
    QUARANTINE = "quarantine"


LIFETIMES: Final[Mapping[Kind, float]] = {
    **dict.fromkeys(Kind, LIFETIME),
    Kind.SEARCH: SEARCH_LIFETIME,
}


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The name of a cached value. Invalidating any of its `namespaces` makes it invalid."""

    kind: Kind
    name: str
    namespaces: tuple[str, ...]


def repository_namespace(repository: RepositoryName) -> str:
    """The namespace of everything about one repository."""
    return f"repository {repository.key}"


def key_of_credential(digest: bytes) -> CacheKey:
    """Of the application key with that SHA-256. The name does not reveal the digest."""
    hashed = hashlib.blake2b(digest, digest_size=_DIGEST_SIZE, person=b"credential").hexdigest()
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}::{hashed}", (CREDENTIALS,))


def key_of_repository(name: RepositoryName) -> CacheKey:
    """Of the stored spelling of a repository. It does not change once the repository is known."""
    return CacheKey(Kind.REPOSITORY, f"{Kind.REPOSITORY.value}:{name.key}:", (EVERYTHING,))


def key_of_test(repository: RepositoryName, test_id: uuid.UUID) -> CacheKey:
    """Of the detail of a test."""
    return key_of_answer(Kind.TEST, repository, test_id.bytes)


def key_of_quarantine(repository: RepositoryName, quarantine_id: uuid.UUID) -> CacheKey:
    """Of one quarantine."""
    return key_of_answer(Kind.QUARANTINE, repository, quarantine_id.bytes)


def key_of_answer(kind: Kind, repository: RepositoryName, canonical: bytes) -> CacheKey:
    """Of an answer about a repository; `canonical` is equal for requests with equal answers."""
    digest = hashlib.blake2b(canonical, digest_size=_DIGEST_SIZE).hexdigest()
    return CacheKey(
        kind,
        f"{kind.value}:{repository.key}:{digest}",
        (EVERYTHING, repository_namespace(repository)),
    )
