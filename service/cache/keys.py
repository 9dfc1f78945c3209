"""What is cached, for how long, and what invalidates it; and the keys. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
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
# The range of most pages of the log ends now, and an event is to be readable two seconds after its
# acknowledgement, whatever happens to an invalidation. Where the writes of other processes do not
# show in the versions, they show in the shorter time.
EVENTS_LIFETIME: Final = 2.0
UNSEEN_EVENTS_LIFETIME: Final = 1.0

# They depend on the time, and on more of a test than an invalidation tells of.
TREND_LIFETIME: Final = 15.0

# Whatever changes in a repository of an owner changes their list, so nothing but time ends it.
REPOSITORIES_LIFETIME: Final = 5.0

# After this time nothing from before a write is left, even if the invalidation was lost.
LONGEST_LIFETIME: Final = LIFETIME + COPY_LIFETIME + RESPONSE_LIFETIME

# Two namespaces beside those of the repositories: of all credentials, and of the whole store.
CREDENTIALS: Final = "credentials"
EVERYTHING: Final = "everything"


class Kind(Enum):
    """The kinds of cached values."""

    KEY = "key"
    REPOSITORY = "repository"
    TEST = "test"
    SEARCH = "search"
    # Those whose rows depend on quarantines, and so on the time.
    SEARCH_OF_QUARANTINES = "search of quarantines"
    QUARANTINES = "quarantines"
    QUARANTINE = "quarantine"
    EVENTS = "events"
    TREND = "trend"
    # What several series show.
    HEALTH_COUNTS = "health counts"
    GROUPS = "groups"
    REPOSITORIES = "repositories"


LIFETIMES: Final[Mapping[Kind, float]] = {
    **dict.fromkeys(Kind, LIFETIME),
    Kind.SEARCH: SEARCH_LIFETIME,
    Kind.EVENTS: EVENTS_LIFETIME,
    Kind.SEARCH_OF_QUARANTINES: SEARCH_LIFETIME,
    Kind.TREND: TREND_LIFETIME,
    Kind.HEALTH_COUNTS: TREND_LIFETIME,
    Kind.GROUPS: SEARCH_LIFETIME,
    Kind.REPOSITORIES: REPOSITORIES_LIFETIME,
}


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The name of a cached value. Invalidating any of its `namespaces` makes it invalid."""

    kind: Kind
    name: str
    namespaces: tuple[str, ...]


# Of a test id: 65,536 namespaces, so one refreshed test hardly ever invalidates another, and no
# number of tests needs more versions.
_TEST_DIGITS: Final = 4

# The namespace of everything about one repository.
repository_namespace: Final[Callable[[RepositoryName], str]] = "repository {0.key}".format
# Of the pages of its test search, of its quarantines, and of its event log.
search_namespace: Final[Callable[[RepositoryName], str]] = "search {0.key}".format
quarantines_namespace: Final[Callable[[RepositoryName], str]] = "quarantines {0.key}".format
events_namespace: Final[Callable[[RepositoryName], str]] = "events {0.key}".format


def test_namespace(repository: RepositoryName, test_id: bytes) -> str:
    """The namespace of some tests of a repository: those whose ids begin alike."""
    return f"tests {repository.key} {test_id.hex()[:_TEST_DIGITS]}"


_DIGEST_SIZE: Final = 16

# A request needs each of its keys twice: it looks all up together, then asks for one after another.
_KEPT: Final = 256

_NAMESPACES_OF: Final = {
    **dict.fromkeys((Kind.SEARCH, Kind.GROUPS, Kind.HEALTH_COUNTS), (search_namespace,)),
    Kind.SEARCH_OF_QUARANTINES: (search_namespace, quarantines_namespace),
    Kind.TREND: (search_namespace, quarantines_namespace),
    **dict.fromkeys((Kind.QUARANTINE, Kind.QUARANTINES), (quarantines_namespace,)),
    Kind.EVENTS: (events_namespace,),
}


@lru_cache(_KEPT)
def namespaces_of(kind: Kind, repository: RepositoryName) -> tuple[str, ...]:
    """The namespaces of all answers of that kind about a repository; not those of one test."""
    own = (make(repository) for make in _NAMESPACES_OF.get(kind, ()))
    return (EVERYTHING, repository_namespace(repository), *own)


@lru_cache(_KEPT)
def key_of_credential(digest: bytes) -> CacheKey:
    """Of the application key with that SHA-256. The name does not reveal the digest."""
    hashed = hashlib.blake2b(digest, digest_size=_DIGEST_SIZE, person=b"credential").hexdigest()
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}::{hashed}", (CREDENTIALS,))


def key_of_key_id(key_id: str) -> CacheKey:
    """Of the application key with that id."""
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}:id:{key_id}", (CREDENTIALS,))


@lru_cache(_KEPT)
def key_of_repository(name: RepositoryName) -> CacheKey:
    """Of the stored spelling of a repository. It does not change once the repository is known."""
    return CacheKey(Kind.REPOSITORY, f"{Kind.REPOSITORY.value}:{name.key}:", (EVERYTHING,))


def key_of_owner(owner: str, canonical: bytes) -> CacheKey:
    """Of a list of repositories of an owner."""
    digest = hashlib.blake2b(canonical, digest_size=_DIGEST_SIZE).hexdigest()
    kind = Kind.REPOSITORIES
    return CacheKey(kind, f"{kind.value}:{owner.lower()}:{digest}", (EVERYTHING,))


@lru_cache(_KEPT)
def key_of_answer(kind: Kind, repository: RepositoryName, canonical: bytes) -> CacheKey:
    """Of an answer about a repository; `canonical` is equal for requests with equal answers."""
    digest = hashlib.blake2b(canonical, digest_size=_DIGEST_SIZE).hexdigest()
    namespaces = namespaces_of(kind, repository)
    if kind is Kind.TEST:
        namespaces += (test_namespace(repository, canonical),)
    return CacheKey(kind, f"{kind.value}:{repository.key}:{digest}", namespaces)
