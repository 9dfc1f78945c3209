"""Encodes the sort keys of each list as bytes, for cursors and for the ends of pages. Pure."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final, TypeVar

from indexing.identifiers import derive_identity_id
from indexing.models.events import EventKey
from indexing.models.failures import FailureKey
from indexing.models.listed_executions import ExecutionKey
from indexing.models.listed_repositories import RepositoryKey
from indexing.models.listed_runs import RunKey
from indexing.models.paging import Page
from indexing.models.quarantines import QuarantineChangeKey, QuarantineKey
from indexing.models.tests import IdentityKey
from indexing.models.transitions import TransitionKey
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds, to_microseconds
from service.pagination.cursor import KEY_MAX_SIZE, Ends, KeyCodec

K = TypeVar("K")
R = TypeVar("R")

_EVENT: Final = struct.Struct(">qQ")
_MOMENT: Final = struct.Struct(">q16s")
_REFERENCE: Final = struct.Struct(">BQ16s")
_IDENTITY: Final = struct.Struct(">BQHHH")

# The numbers of broken and of flaky tests; no store can hold more than four billion tests.
_REPOSITORY: Final = struct.Struct(">II")
# A longer name of a repository is its start and a digest; code hosts allow 100 characters. No name
# contains the mark between the two.
_MAX_REPOSITORY_NAME: Final = 600
_CUT: Final = "/"

# The value of a sort field that is neither a name nor the count: a ratio, or an integer.
_RATIO: Final = struct.Struct(">d")
_NUMBER: Final = struct.Struct(">q")

_BY_ID: Final = 0
_BY_NAMES: Final = 1
_HAS_RATIO: Final = 2
_HAS_NUMBER: Final = 4


@dataclass(frozen=True, slots=True)
class IdentityReference:
    """A row of the test search by its id, because its names are too long for a cursor."""

    executions_count: int
    identity_id: bytes
    value: float | None = None


IdentityPlace = IdentityKey | IdentityReference


def place_identity(repository: RepositoryName, key: IdentityKey) -> IdentityPlace:
    """Return the names of a row of the test search if a cursor has room for them, else its id."""
    size = _IDENTITY.size + len(_pack_value(key.value)[1])
    if size + sum(len(name) for name in _names(key)) <= KEY_MAX_SIZE:
        return key
    return _refer_to(repository, key)


def _refer_to(repository: RepositoryName, key: IdentityKey) -> IdentityReference:
    identity_id = derive_identity_id(repository, key.test_name, key.pipeline_name, key.job_name)
    return IdentityReference(key.executions_count, identity_id, key.value)


def _pack_identity(place: IdentityPlace) -> bytes:
    flag, value = _pack_value(place.value)
    if isinstance(place, IdentityReference):
        head = _REFERENCE.pack(_BY_ID | flag, place.executions_count, place.identity_id)
        return head + value
    names = _names(place)
    lengths = (len(name) for name in names)
    head = _IDENTITY.pack(_BY_NAMES | flag, place.executions_count, *lengths)
    return b"".join((head, *names, value))


def _unpack_identity(data: bytes) -> IdentityPlace:
    if not data[0] & _BY_NAMES:
        _, count, identity_id = _REFERENCE.unpack_from(data)
        return IdentityReference(count, identity_id, _unpack_value(data, _REFERENCE.size))
    _, count, *lengths = _IDENTITY.unpack_from(data)
    names = []
    start = _IDENTITY.size
    for length in lengths:
        names.append(data[start : start + length].decode())
        start += length
    test_name, pipeline_name, job_name = names
    return IdentityKey(count, test_name, pipeline_name, job_name, _unpack_value(data, start))


def _pack_value(value: float | None) -> tuple[int, bytes]:
    """Return the flag and the bytes of a value that rows are sorted by."""
    if value is None:
        return 0, b""
    if isinstance(value, int):
        return _HAS_NUMBER, _NUMBER.pack(value)
    return _HAS_RATIO, _RATIO.pack(value)


def _unpack_value(data: bytes, start: int) -> float | None:
    if data[0] & _HAS_NUMBER:
        number: int = _NUMBER.unpack_from(data, start)[0]
        return number
    if data[0] & _HAS_RATIO:
        ratio: float = _RATIO.unpack_from(data, start)[0]
        return ratio
    return None


def _shorten_identity(repository: RepositoryName, packed: bytes) -> bytes:
    place = _unpack_identity(packed)
    if isinstance(place, IdentityReference):
        return packed
    return _pack_identity(_refer_to(repository, place))


def _names(key: IdentityKey) -> list[bytes]:
    return [name.encode() for name in (key.test_name, key.pipeline_name, key.job_name)]


def _pack_event(key: EventKey) -> bytes:
    return _EVENT.pack(to_microseconds(key.received_at), key.id)


def _unpack_event(data: bytes) -> EventKey:
    microseconds, event_id = _EVENT.unpack(data)
    return EventKey(from_microseconds(microseconds), event_id)


def _moment_keys(
    make: Callable[[datetime, bytes], K], split: Callable[[K], tuple[datetime, bytes]]
) -> KeyCodec[K]:
    """Return the codec of a key that consists of a moment and an id of 16 bytes."""

    def pack(key: K) -> bytes:
        moment, row_id = split(key)
        return _MOMENT.pack(to_microseconds(moment), row_id)

    def unpack(data: bytes) -> K:
        microseconds, row_id = _MOMENT.unpack(data)
        return make(from_microseconds(microseconds), row_id)

    return KeyCodec(pack, unpack)


def _pack_repository(key: RepositoryKey) -> bytes:
    name = key.name if _CUT in key.name else shorten_repository(key.name)
    return _REPOSITORY.pack(key.broken, key.flaky) + name.encode()


def _unpack_repository(data: bytes) -> RepositoryKey:
    broken, flaky = _REPOSITORY.unpack_from(data)
    return RepositoryKey(data[_REPOSITORY.size :].decode(), broken, flaky)


def shorten_repository(name: str) -> str:
    """Return the name of a repository as a cursor holds it."""
    if len(name) <= _MAX_REPOSITORY_NAME:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[:_MAX_REPOSITORY_NAME]}{_CUT}{digest}"


def start_of_shortened(name: str) -> str | None:
    """Return the start of a shortened name; `None` for a whole one."""
    start, cut, _ = name.partition(_CUT)
    return start if cut else None


REPOSITORY_KEYS: Final = KeyCodec(_pack_repository, _unpack_repository)
EVENT_KEYS: Final = KeyCodec(_pack_event, _unpack_event)
IDENTITY_KEYS: Final = KeyCodec(_pack_identity, _unpack_identity, _shorten_identity)
QUARANTINE_KEYS: Final[KeyCodec[QuarantineKey]] = _moment_keys(
    lambda moment, row_id: QuarantineKey(moment, uuid.UUID(bytes=row_id)),
    lambda key: (key.created_at, key.id.bytes),
)
QUARANTINE_CHANGE_KEYS: Final[KeyCodec[QuarantineChangeKey]] = _moment_keys(
    lambda moment, row_id: QuarantineChangeKey(moment, uuid.UUID(bytes=row_id)),
    lambda key: (key.at, key.id.bytes),
)
FAILURE_KEYS: Final[KeyCodec[FailureKey]] = _moment_keys(
    lambda moment, row_id: FailureKey(moment, uuid.UUID(bytes=row_id)),
    lambda key: (key.last_failure_at, key.id.bytes),
)
EXECUTION_KEYS: Final = _moment_keys(ExecutionKey, lambda key: (key.finished_at, key.id))
RUN_KEYS: Final = _moment_keys(RunKey, lambda key: (key.finished_at, key.id))
TRANSITION_KEYS: Final = _moment_keys(TransitionKey, lambda key: (key.at, key.id))


def pack_ends(
    page: Page[R], codec: KeyCodec[K], place_of: Callable[[R], K] = attrgetter("key")
) -> Ends[bytes]:
    """Return the ends of a page; `place_of` returns what is packed of a row: its sort key."""
    if not page.rows:
        return Ends(None, None, page.has_previous, page.has_next)
    first, last = codec.pack(place_of(page.rows[0])), codec.pack(place_of(page.rows[-1]))
    return Ends(first, last, page.has_previous, page.has_next)
