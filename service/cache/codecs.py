"""Encodes cached values as bytes and decodes them. Pure; the bytes contain no credential."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

import orjson

from indexing.models.file_selections import FileSelection
from indexing.models.keys import ApplicationKey, Scope
from indexing.models.trends import HealthCounts
from indexing.names import RepositoryName
from indexing.timestamps import parse_timestamp

V = TypeVar("V")

# The memory of a cached key, in bytes. Most of it is objects: the names of keys are short.
KEY_SIZE: Final = 500

# The memory of one day's counts, in bytes: at most four, under names that all days share.
_DAY_SIZE: Final = 400

# The memory of a path in a selection besides its characters, in bytes.
_PATH_SIZE: Final = 60

# The size of a SHA-256 digest, in bytes.
_DIGEST_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class Codec(Generic[V]):
    """Encodes values of a type as bytes, decodes them, and estimates their size in memory."""

    pack: Callable[[V], bytes]
    unpack: Callable[[bytes], V]
    size: Callable[[V], int]


def unpack_key(digest: bytes, data: bytes) -> ApplicationKey:
    """Return the application key that `pack_key` packed; `digest` is its SHA-256."""
    values = orjson.loads(data)
    return ApplicationKey(
        id=values["id"],
        name=values["name"],
        scope=Scope(values["scope"]),
        owner=values["owner"],
        repository=values["repository"],
        digest=digest,
        created_at=parse_timestamp(values["created_at"]),
        expires_at=_moment(values["expires_at"]),
        revoked_at=_moment(values["revoked_at"]),
    )


def pack_key(key: ApplicationKey) -> bytes:
    """Return an application key as bytes, without its digest, which the caller knows."""
    return orjson.dumps(
        {
            "id": key.id,
            "name": key.name,
            "scope": key.scope,
            "owner": key.owner,
            "repository": key.repository,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
        }
    )


def unpack_found_key(data: bytes) -> ApplicationKey:
    """Return the application key that `pack_found_key` packed into these bytes."""
    return unpack_key(data[:_DIGEST_SIZE], data[_DIGEST_SIZE:])


def pack_found_key(key: ApplicationKey) -> bytes:
    """Return an application key as bytes, with its digest."""
    return key.digest + pack_key(key)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_timestamp(text)


def _unpack_repository(data: bytes) -> RepositoryName:
    owner, _, name = data.decode().partition("/")
    return RepositoryName(owner, name)


def _pack_counts(counts: HealthCounts) -> bytes:
    return orjson.dumps([counts.before, list(counts.changes.items())])


def _unpack_counts(data: bytes) -> HealthCounts:
    before, changes = orjson.loads(data)
    return HealthCounts(before, dict(changes))


def _size_of_paths(paths: Sequence[str]) -> int:
    return sum(map(len, paths)) + _PATH_SIZE * (1 + len(paths))


def _unpack_files(data: bytes) -> FileSelection:
    without_file, everything, *paths = orjson.loads(data)
    return FileSelection(tuple(paths), without_file, everything)


# For keys that are found by their id: the caller does not know the digest.
FOUND_KEY_CODEC: Final[Codec[ApplicationKey]] = Codec(
    pack_found_key, unpack_found_key, lambda _: KEY_SIZE
)

REPOSITORY_CODEC: Final[Codec[RepositoryName]] = Codec(
    lambda name: str(name).encode(), _unpack_repository, lambda name: len(str(name))
)

HEALTH_COUNTS_CODEC: Final[Codec[HealthCounts]] = Codec(
    _pack_counts,
    _unpack_counts,
    lambda counts: _DAY_SIZE * (1 + len(counts.changes)),
)

FILEPATHS_CODEC: Final[Codec[Sequence[str]]] = Codec(orjson.dumps, orjson.loads, _size_of_paths)

FILES_CODEC: Final[Codec[FileSelection]] = Codec(
    lambda files: orjson.dumps([files.without_file, files.everything, *files.paths]),
    _unpack_files,
    lambda files: _size_of_paths(files.paths),
)
