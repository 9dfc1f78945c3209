"""What may be kept, under which name, and what makes it void. Pure: values in, values out."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from indexing.names import RepositoryName

# Raised whenever the bytes of anything kept change their meaning.
FORMAT: Final = 1

# A revoked key stops everywhere within 60 seconds, even where the writer that revoked it died
# before it could say so: as long as a value may be kept, a copy of it in a process, and an answer
# made of that copy, one after the other.
LIFETIME: Final = 48.0
COPY_LIFETIME: Final = 5.0
RESPONSE_LIFETIME: Final = 5.0
# Searches are many and seldom asked twice: they make room for what is.
SEARCH_LIFETIME: Final = 15.0

# When nothing of before a write is left anywhere, even where nobody was told of it.
LONGEST_LIFETIME: Final = LIFETIME + COPY_LIFETIME + RESPONSE_LIFETIME

_DIGEST_SIZE: Final = 16

# The generations that everything kept belongs to. Of all credentials; of all that a store holds.
CREDENTIALS: Final = "credentials"
EVERYTHING: Final = "everything"


class Kind(Enum):
    """What a kept value is."""

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
    """What a kept value answers. `generations` are those whose renewal makes it void."""

    kind: Kind
    name: str
    namespaces: tuple[str, ...]


def repository_namespace(repository: RepositoryName) -> str:
    """The generation of what is known of one repository."""
    return f"repository {repository.key}"


def key_of_credential(digest: bytes) -> CacheKey:
    """Whose application key has that SHA-256. The name tells nothing of the digest."""
    hashed = hashlib.blake2b(digest, digest_size=_DIGEST_SIZE, person=b"credential").hexdigest()
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}::{hashed}", (CREDENTIALS,))


def key_of_repository(name: RepositoryName) -> CacheKey:
    """In which spelling a repository is known. Once known it stays so, whatever is written."""
    return CacheKey(Kind.REPOSITORY, f"{Kind.REPOSITORY.value}:{name.key}:", (EVERYTHING,))


def key_of_test(repository: RepositoryName, test_id: uuid.UUID) -> CacheKey:
    """The detail of a test."""
    return key_of_answer(Kind.TEST, repository, test_id.bytes)


def key_of_quarantine(repository: RepositoryName, quarantine_id: uuid.UUID) -> CacheKey:
    """One quarantine."""
    return key_of_answer(Kind.QUARANTINE, repository, quarantine_id.bytes)


def key_of_answer(kind: Kind, repository: RepositoryName, canonical: bytes) -> CacheKey:
    """One answer of a repository; `canonical` is the same for all that ask for the same bytes."""
    digest = hashlib.blake2b(canonical, digest_size=_DIGEST_SIZE).hexdigest()
    return CacheKey(
        kind,
        f"{kind.value}:{repository.key}:{digest}",
        (EVERYTHING, repository_namespace(repository)),
    )
