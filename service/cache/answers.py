"""Cached answers: a response body with its entity tag, page ends, validity and cache key. Pure."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeVar

import orjson

from indexing.identifiers import read_uuid
from indexing.models.paging import Anchor
from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds, to_microseconds
from service.cache.codecs import Codec
from service.cache.keys import (
    CREDENTIALS,
    DIGEST_SIZE,
    EVERYTHING,
    KEYS_CACHED,
    CacheKey,
    Kind,
    key_of_credential,
    key_of_repository,
    namespaces_of,
    test_namespace,
)
from service.cache.kinds_of_operations import KINDS_OF_LISTS, NAMED_BY_PATH
from service.http.operations import Operation
from service.pagination.cursor import NO_ENDS, Ends

K = TypeVar("K")

_ETAG_SIZE: Final = 16
_HEAD: Final = struct.Struct(f">BqqHH{_ETAG_SIZE}s")

_HAS_PREVIOUS: Final = 1
_HAS_NEXT: Final = 2
_HAS_SINCE: Final = 4
_HAS_UNTIL: Final = 8
_HAS_FIRST: Final = 16

# The clocks of two machines differ, and one clock is read twice within a request.
_CLOCK_SLACK: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response body. `etag` covers the body alone; `ends` holds packed sort keys.

    An answer that depends on the time is valid from `since` on and before `until`.
    """

    body: bytes
    etag: str
    ends: Ends[bytes] = NO_ENDS
    since: datetime | None = None
    until: datetime | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether the answer is valid at that moment, as far as time alone decides."""
        return (self.until is None or now < self.until) and (
            self.since is None or now >= self.since - _CLOCK_SLACK
        )

    @property
    def size(self) -> int:
        """The size in bytes of the body and the packed sort keys."""
        return len(self.body) + len(self.ends.first or b"") + len(self.ends.last or b"")


def key_of_answer(kind: Kind, repository: RepositoryName, canonical: bytes) -> CacheKey:
    """Return the cache key of an answer; `canonical` is equal for requests with equal answers."""
    digest = hashlib.blake2b(canonical, digest_size=DIGEST_SIZE).hexdigest()
    namespaces = namespaces_of(kind, repository)
    if kind is Kind.TEST:
        namespaces += (test_namespace(repository, canonical),)
    return CacheKey(kind, f"{kind.value}:{repository.key}:{digest}", namespaces)


# A request for an item makes its key twice: to look it up with others, then to read it.
key_of_item: Final = lru_cache(KEYS_CACHED)(key_of_answer)


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
            keys.append(key_of_item(kind, repository, read_uuid(item).bytes))
    namespaces += (namespace for key in keys for namespace in key.namespaces)
    return list(dict.fromkeys(namespaces)), keys


def filters_of(query: type, *, but: Collection[str] = ()) -> Callable[[Any], tuple[object, ...]]:
    """Return a function that reads the fields of a query that belong in its cache key.

    The repository is in the key anyway. `but` names further fields that do not change the answer.
    """
    left_out = {"repository", *but}
    names = [field.name for field in fields(query) if field.name not in left_out]
    read = attrgetter(*names)
    # With one name, `attrgetter` returns the value itself, not a tuple.
    return read if len(names) > 1 else lambda query: (read(query),)


def canonical_page(
    filters: tuple[object, ...], anchor: Anchor[K], limit: int | None, pack: Callable[[K], bytes]
) -> bytes:
    """Return bytes that identify a page of a list; `pack` encodes its sort keys."""
    shape = orjson.dumps([*filters, anchor.backward, limit])
    return shape if anchor.key is None else shape + pack(anchor.key)


def make_answer(
    body: bytes,
    ends: Ends[bytes] = NO_ENDS,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Answer:
    """Return an answer with that body and the entity tag of it."""
    return Answer(body, _etag_of(_digest(body)), ends, since, until)


def tag_of(answer: Answer, links: Iterable[str]) -> str:
    """Return the entity tag of a response, which covers its body and its `Link` fields.

    A page may be unchanged while a new page has appeared after it: then only the links differ.
    """
    lines = "\n".join(links)
    return _etag_of(_digest(f"{answer.etag}\n{lines}".encode())) if lines else answer.etag


def pack_answer(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    ends = answer.ends
    first, last = ends.first or b"", ends.last or b""
    flags = (
        _HAS_PREVIOUS * ends.has_previous
        | _HAS_NEXT * ends.has_next
        | _HAS_SINCE * (answer.since is not None)
        | _HAS_UNTIL * (answer.until is not None)
        | _HAS_FIRST * (ends.first is not None)
    )
    head = _HEAD.pack(
        flags,
        0 if answer.since is None else to_microseconds(answer.since),
        0 if answer.until is None else to_microseconds(answer.until),
        len(first),
        len(last),
        bytes.fromhex(answer.etag.strip('"')),
    )
    return b"".join((head, first, last, answer.body))


def unpack_answer(data: bytes) -> Answer:
    """Return the answer that `pack_answer` packed into these bytes."""
    flags, since, until, first_size, last_size, digest = _HEAD.unpack_from(data)
    last_at = _HEAD.size + first_size
    body_at = last_at + last_size
    has_rows = bool(flags & _HAS_FIRST)
    return Answer(
        data[body_at:],
        _etag_of(digest),
        Ends(
            data[_HEAD.size : last_at] if has_rows else None,
            data[last_at:body_at] if has_rows else None,
            bool(flags & _HAS_PREVIOUS),
            bool(flags & _HAS_NEXT),
        ),
        from_microseconds(since) if flags & _HAS_SINCE else None,
        from_microseconds(until) if flags & _HAS_UNTIL else None,
    )


ANSWER_CODEC: Final = Codec(pack_answer, unpack_answer, attrgetter("size"))


def _digest(body: bytes) -> bytes:
    # Most processors have instructions for SHA-256, which then takes half the time of BLAKE2.
    return hashlib.sha256(body).digest()[:_ETAG_SIZE]


def _etag_of(digest: bytes) -> str:
    return f'"{digest.hex()}"'
