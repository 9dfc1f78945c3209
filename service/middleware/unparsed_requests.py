"""Two ways to answer a request without the parser, for clients that send the same bytes again.

A client that polls sends the same head again and again. `RepeatedRequests` recognises the whole
head, so that the cached response is written at once, under the checks of the response cache.

Other clients send the same header fields with each request; only the target differs. Once such
fields were parsed, and the access to the path was verified, `DirectReads` makes the next request of
the known fields and its own target. It passes all layers; those that would only read the same
fields again use what they have found before.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiohttp import HttpVersion11, web
from aiohttp.http import RawRequestMessage
from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from indexing.fairness import current_tenant
from indexing.lru import Lru
from service.http import unparsed
from service.http.known_fields import KNOWN_FIELDS, KnownFields
from service.http.raw_response import SHORT_BODY_BYTES, RawResponse, write_whole
from service.http.response_headers import REQUEST_ID_HEADER
from service.http.unparsed import KNOWN_MAX_BYTES, KNOWN_SECONDS
from service.middleware.admission_control import has_own_queue
from service.middleware.fair_queue import FairQueue
from service.middleware.remembered_access import ADMITTED, RememberedAccess, split_path
from service.middleware.response_cache import CACHE_KEY, ResponseCache
from service.routes import name_operation

_END: Final = b"\r\n\r\n"
_SECRET_SIZE: Final = 16

# A longer request head is seldom that of a client that polls.
_MAX_REPEATED: Final = 2_048
_MAX_SEEN_HEADS: Final = 10_000
_HEAD_DIGEST_SIZE: Final = 32

# Counts an answered request: its operation, status and seconds.
Count = Callable[[str, int, float], None]

# A longer request head is seldom that of a client that reads.
_MAX_HEAD: Final = 4_096
# A target without a fragment, in printable ASCII.
_REQUEST_LINE: Final = re.compile(rb"GET (/[!-\"$-~]*) HTTP/1\.1\r\n")

_DIGEST_SIZE: Final = 16


@dataclass(frozen=True, slots=True)
class _Repeated:
    """What was read from a head when it was parsed."""

    cache_key: bytes
    tenant: Hashable
    if_none_match: tuple[str, ...]
    operation: str


class RepeatedRequests:
    """The request heads that a process knows, as digests: heads contain credentials."""

    def __init__(
        self,
        cache: ResponseCache,
        queue: FairQueue,
        make_request_id: Callable[[], str],
        count: Count | None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._make_request_id = make_request_id
        self._count = count
        self._known: Lru[_Repeated] = Lru(KNOWN_MAX_BYTES)
        self._seen: set[bytes] = set()
        self._secret = secrets.token_bytes(_SECRET_SIZE)

    def digest(self, data: bytes) -> bytes | None:
        """Return the digest of these bytes, if they may be the head of one request and no more."""
        if not _is_whole_head(data, _MAX_REPEATED):
            return None
        return hashlib.blake2b(data, key=self._secret, digest_size=_HEAD_DIGEST_SIZE).digest()

    def answer(self, head: bytes) -> bytes | None:
        """Return the whole response to a known head, if it can be sent without waiting."""
        known = self._known.find(head)
        if known is None:
            return None
        began = time.perf_counter()
        if not self._queue.try_acquire(known.tenant):
            return None
        self._queue.release(known.tenant)
        cached = self._cache.find_valid(known.cache_key)
        if cached is None:
            return None
        start, body, status = cached.write(known.if_none_match)
        if len(body) > SHORT_BODY_BYTES:
            return None
        text = write_whole(start, f"{REQUEST_ID_HEADER}: {self._make_request_id()}\r\n", body)
        self._cache.hits += 1
        if self._count is not None:
            self._count(known.operation, status, time.perf_counter() - began)
        return text

    def knows(self, head: bytes) -> bool:
        """Whether that head is known."""
        return self._known.find(head) is not None

    def learn(self, head: bytes, request: BaseRequest, response: StreamResponse) -> None:
        """Remember the head of a request, if it was answered from the response cache."""
        key = request.get(CACHE_KEY)
        if key is None:
            return
        if head not in self._seen:
            # Many clients never send the same head again.
            if len(self._seen) == _MAX_SEEN_HEADS:
                self._seen.clear()
            self._seen.add(head)
            return
        # What another layer has added belongs to that one response.
        if not _repeats(request, response) or {*response.headers} != {REQUEST_ID_HEADER}:
            return
        repeated = _Repeated(
            key,
            current_tenant.get(),
            tuple(request.headers.getall("If-None-Match", ())),
            name_operation(request.method, request.raw_path),
        )
        self._known.keep(head, repeated, 0, time.monotonic() + KNOWN_SECONDS)


class Target(NamedTuple):
    """The target of a read, and its parts.

    `name` is a digest of the header fields and of the path, but for its `ids`.
    """

    name: bytes
    text: str
    path: str
    query: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    fields: KnownFields
    # The name of the remembered access.
    access: bytes


class DirectReads:
    """The fields that a process knows, as digests: they contain credentials."""

    def __init__(self, access: RememberedAccess, cache: ResponseCache) -> None:
        self._access = access
        self._cache = cache
        self._known: Lru[_Known] = Lru(KNOWN_MAX_BYTES)
        self._secret = secrets.token_bytes(_SECRET_SIZE)

    def read_target(self, data: bytes) -> Target | None:
        """Return the target of the read that these bytes are the whole head of, if they are."""
        if not _is_whole_head(data, _MAX_HEAD):
            return None
        line = _REQUEST_LINE.match(data)
        if line is None:
            return None
        text = line[1].decode()
        path, _, query = text.partition("?")
        split = split_path(path)
        if split is None:
            return None
        digest = hashlib.blake2b(data[line.end() :], key=self._secret, digest_size=_DIGEST_SIZE)
        digest.update(split.pattern.encode())
        return Target(digest.digest(), text, path, query, split.ids)

    def open(
        self, target: Target, make: Callable[[RawRequestMessage], BaseRequest]
    ) -> BaseRequest | None:
        """Return the request for that target, if its fields are known and its access is valid.

        `make` makes a request of what the parser would return.
        """
        known = self._known.find(target.name)
        if known is None:
            return None
        admitted = self._access.find(known.access, target.ids, on_arrival=True)
        if admitted is None:
            return None
        message = RawRequestMessage(
            method="GET",
            path=target.text,
            version=HttpVersion11,
            headers=known.fields.headers,
            raw_headers=(),
            should_close=False,
            compression=None,
            upgrade=False,
            chunked=False,
            url=URL.build(path=target.path, query_string=target.query, encoded=True),
        )
        request = make(message)
        request[KNOWN_FIELDS] = known.fields
        request[ADMITTED] = admitted
        return request

    def learn(self, target: Target, request: BaseRequest, response: StreamResponse) -> None:
        """Remember the fields of a request that was answered, if the next one may be direct."""
        admitted, tenant = request.get(ADMITTED), current_tenant.get()
        if (
            admitted is None
            or KNOWN_FIELDS in request
            or not _repeats(request, response)
            or not has_own_queue(tenant)
            or (response_key := self._cache.begin_key(request)) is None
        ):
            return
        headers = CIMultiDict(request.headers)
        del headers["Authorization"]
        fields = KnownFields(CIMultiDictProxy(headers), tenant, response_key)
        size = sum(len(name) + len(value) for name, value in headers.items())
        known = _Known(fields, admitted.access.name)
        self._known.keep(target.name, known, size, time.monotonic() + KNOWN_SECONDS)


def _is_whole_head(data: bytes, most: int) -> bool:
    """Whether these bytes may be the head of one request and no more, of at most that length."""
    return len(_END) <= len(data) <= most and data.find(_END) == len(data) - len(_END)


def _repeats(request: BaseRequest, response: StreamResponse) -> bool:
    """Whether a later request with the same fields is read in the same way, on the connection."""
    return (
        type(response) is RawResponse
        and request.keep_alive
        and response.keep_alive is not False
        and not request.body_exists
        and "Upgrade" not in request.headers
        # The client's own id belongs to one response.
        and REQUEST_ID_HEADER not in request.headers
    )


REPEATED_REQUESTS: Final = web.AppKey("repeated_requests", unparsed.RepeatedRequests)
DIRECT_READS: Final = web.AppKey("direct_reads", DirectReads)
