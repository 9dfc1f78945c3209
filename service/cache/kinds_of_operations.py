"""What each operation reads from the cache. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from indexing.identifiers import read_uuid
from indexing.names import RepositoryName
from service.cache.keys import (
    CREDENTIALS,
    EVERYTHING,
    CacheKey,
    Kind,
    key_of_answer,
    key_of_credential,
    key_of_repository,
    namespaces_of,
)
from service.http.operations import Operation

# The operations whose path identifies the answer: it is looked up together with the credential.
NAMED_BY_PATH: Final[Mapping[Operation, Kind]] = {
    Operation.TEST: Kind.TEST,
    Operation.QUARANTINE: Kind.QUARANTINE,
}

# The operations whose query is part of the key.
KINDS_OF_LISTS: Final[Mapping[Operation, Kind]] = {
    Operation.SEARCH: Kind.SEARCH,
    Operation.QUARANTINES: Kind.QUARANTINES,
    Operation.EVENTS: Kind.EVENTS,
    Operation.STATS: Kind.TREND,
    Operation.TEST_STATS: Kind.TREND,
    Operation.GROUPS: Kind.GROUPS,
    Operation.TRANSITIONS: Kind.TREND,
}


def list_lookups(
    operation: Operation,
    digest: bytes | None,
    repository: RepositoryName | None,
    item: str | None,
) -> tuple[list[str], list[CacheKey]]:
    """Return the namespaces and keys that a request for an operation is going to read.

    `digest` is that of its application key, `item` the UUID in its path, if present.
    """
    namespaces = [CREDENTIALS]
    keys: list[CacheKey] = []
    if digest is not None:
        keys.append(key_of_credential(digest))
    if operation is Operation.REPOSITORIES:
        namespaces.append(EVERYTHING)
    if repository is not None:
        if operation in KINDS_OF_LISTS:
            namespaces += namespaces_of(KINDS_OF_LISTS[operation], repository)
        keys.append(key_of_repository(repository))
        if item is not None and operation in NAMED_BY_PATH:
            kind = NAMED_BY_PATH[operation]
            keys.append(key_of_answer(kind, repository, read_uuid(item).bytes))
    namespaces += (namespace for key in keys for namespace in key.namespaces)
    return list(dict.fromkeys(namespaces)), keys
