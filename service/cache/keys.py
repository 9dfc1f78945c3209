"""What is cached, for how long, and what invalidates it; `reader.py` makes the keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


# The namespace of everything about one repository.
repository_namespace: Final[Callable[[RepositoryName], str]] = "repository {0.key}".format
