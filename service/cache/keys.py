"""Cache keys: what is cached, for how many seconds, and what invalidates it. Pure."""

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
# before it could invalidate anything. So these three lifetimes add up to less: of a shared value,
# of a copy in a process, and of a cached response made from that copy.
LIFETIME: Final = 48.0
COPY_LIFETIME: Final = 5.0
RESPONSE_LIFETIME: Final = 5.0
# What a credential may read is remembered only where values are not shared, so this takes the place
# of the lifetime of a copy.
ACCESS_LIFETIME: Final = 5.0
# Searches are many and seldom repeated: they expire early, to make room for what is repeated.
SEARCH_LIFETIME: Final = 15.0
# The range of most pages of the log ends now, and an event must be readable two seconds after its
# acknowledgement, even if an invalidation is lost. The shorter lifetime is for a backend whose
# versions do not change with the writes of other processes.
EVENTS_LIFETIME: Final = 2.0
UNSEEN_EVENTS_LIFETIME: Final = 1.0

# Trends depend on the time, and on more data of a test than its invalidation covers.
TREND_LIFETIME: Final = 15.0

# The files of owners are chosen from all files, and pages of a search are made from them. All three
# are cached, so their lifetimes add up.
FILES_LIFETIME: Final = 10.0

# Any change in a repository changes its owner's list, so the list is not invalidated but expires.
REPOSITORIES_LIFETIME: Final = 5.0

# After this time nothing from before a write is left, even if the invalidation was lost.
LONGEST_LIFETIME: Final = LIFETIME + COPY_LIFETIME + RESPONSE_LIFETIME

# Two namespaces that belong to no repository: of all credentials, and of the whole store.
CREDENTIALS: Final = "credentials"
EVERYTHING: Final = "everything"


class Kind(Enum):
    """The kinds of cached values."""

    KEY = "key"
    REPOSITORY = "repository"
    TEST = "test"
    SEARCH = "search"
    # Searches whose rows depend on quarantines, and so on the time.
    SEARCH_OF_QUARANTINES = "search of quarantines"
    QUARANTINES = "quarantines"
    # The same lists as plugins of test frameworks read them.
    TEST_STATES = "test states"
    # Lists of quarantines with the verdicts of their tests.
    QUARANTINE_DETAILS = "quarantine details"
    QUARANTINE = "quarantine"
    EVENTS = "events"
    TREND = "trend"
    # Counts that several series of a trend are made from.
    HEALTH_COUNTS = "health counts"
    GROUPS = "groups"
    # All files of tests, and those of some owners, whose tests several pages of a search find.
    FILEPATHS = "filepaths"
    FILES = "files"
    REPOSITORIES = "repositories"


LIFETIMES: Final[Mapping[Kind, float]] = {
    **dict.fromkeys(Kind, LIFETIME),
    Kind.SEARCH: SEARCH_LIFETIME,
    Kind.EVENTS: EVENTS_LIFETIME,
    Kind.SEARCH_OF_QUARANTINES: SEARCH_LIFETIME,
    Kind.QUARANTINE_DETAILS: SEARCH_LIFETIME,
    Kind.TREND: TREND_LIFETIME,
    Kind.HEALTH_COUNTS: TREND_LIFETIME,
    Kind.GROUPS: SEARCH_LIFETIME,
    Kind.FILEPATHS: FILES_LIFETIME,
    Kind.FILES: FILES_LIFETIME,
    Kind.REPOSITORIES: REPOSITORIES_LIFETIME,
}


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The name of a cached value. Invalidating any of its `namespaces` makes it invalid."""

    kind: Kind
    name: str
    namespaces: tuple[str, ...]


# How many hexadecimal digits of a test id name its namespace. Among 65,536 namespaces, a refreshed
# test hardly ever invalidates another, and the number of versions stays bounded.
_TEST_DIGITS: Final = 4

# The namespace of everything about one repository.
repository_namespace: Final[Callable[[RepositoryName], str]] = "repository {0.key}".format
# The namespaces of its test search, its quarantines and its event log.
search_namespace: Final[Callable[[RepositoryName], str]] = "search {0.key}".format
quarantines_namespace: Final[Callable[[RepositoryName], str]] = "quarantines {0.key}".format
events_namespace: Final[Callable[[RepositoryName], str]] = "events {0.key}".format


def test_namespace(repository: RepositoryName, test_id: bytes) -> str:
    """Return the namespace of the tests of a repository whose ids begin with the same digits."""
    return f"tests {repository.key} {test_id.hex()[:_TEST_DIGITS]}"


DIGEST_SIZE: Final = 16

# How many keys are cached, and how many namespaces: a request makes each of its keys twice, to look
# all up together, then to read one after another.
KEYS_CACHED: Final = 256

_NAMESPACES_OF: Final = {
    **dict.fromkeys(
        (Kind.SEARCH, Kind.GROUPS, Kind.FILEPATHS, Kind.FILES, Kind.HEALTH_COUNTS),
        (search_namespace,),
    ),
    **dict.fromkeys(
        (Kind.SEARCH_OF_QUARANTINES, Kind.QUARANTINE_DETAILS, Kind.TREND),
        (search_namespace, quarantines_namespace),
    ),
    **dict.fromkeys(
        (Kind.QUARANTINE, Kind.QUARANTINES, Kind.TEST_STATES), (quarantines_namespace,)
    ),
    Kind.EVENTS: (events_namespace,),
}


@lru_cache(KEYS_CACHED)
def namespaces_of(kind: Kind, repository: RepositoryName) -> tuple[str, ...]:
    """Return the namespaces that all answers of that kind about a repository have in common."""
    own = (make(repository) for make in _NAMESPACES_OF.get(kind, ()))
    return (EVERYTHING, repository_namespace(repository), *own)


@lru_cache(KEYS_CACHED)
def key_of_credential(digest: bytes) -> CacheKey:
    """Return the cache key of the credential with that SHA-256, which the name does not reveal."""
    hashed = hashlib.blake2b(digest, digest_size=DIGEST_SIZE, person=b"credential").hexdigest()
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}::{hashed}", (CREDENTIALS,))


def key_of_key_id(key_id: str) -> CacheKey:
    """Return the cache key of the application key with that id."""
    return CacheKey(Kind.KEY, f"{Kind.KEY.value}:id:{key_id}", (CREDENTIALS,))


@lru_cache(KEYS_CACHED)
def key_of_repository(name: RepositoryName) -> CacheKey:
    """Return the cache key of the stored spelling of a repository, which never changes."""
    return CacheKey(Kind.REPOSITORY, f"{Kind.REPOSITORY.value}:{name.key}:", (EVERYTHING,))


def key_of_owner(owner: str, canonical: bytes) -> CacheKey:
    """Return the cache key of a list of an owner's repositories; `canonical` names the request."""
    digest = hashlib.blake2b(canonical, digest_size=DIGEST_SIZE).hexdigest()
    kind = Kind.REPOSITORIES
    return CacheKey(kind, f"{kind.value}:{owner.lower()}:{digest}", (EVERYTHING,))
