"""The response cache: repeats a response to the same request of the same credential.

A cached response belongs to one credential, host and target, and is sent again only while nothing
that it depends on has changed: the key, the repository, and the time where that matters. So all
other checks would still have the same result. Only responses with status 200 are cached.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web
from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict

from indexing.clocks import Clock
from indexing.lru import Lru
from service.auth.principal import Principal
from service.cache.answers import Answer, tag_of
from service.cache.backend import CacheBackend, Versions
from service.cache.keys import RESPONSE_LIFETIME
from service.context import PRINCIPAL, READER
from service.http import problems
from service.http.accept import ANY, JSON, choose_row_format
from service.http.conditional import is_known
from service.http.known_fields import KNOWN_FIELDS, KnownFields
from service.http.methods import READS
from service.http.problems import Problem
from service.http.query_string import IGNORED_HEADER
from service.http.raw_response import (
    PRIVATE,
    AnswerHeaders,
    RawResponse,
    takes_raw_response,
    write_head,
)
from service.http.response_headers import RESPONSE_HEADERS
from service.middleware.layer import Handler
from service.middleware.rate_limit import RateLimit

if TYPE_CHECKING:
    from _hashlib import HASH

# Most bodies are shared with the copies of the cache, which count them too.
RESPONSES_MAX_BYTES: Final = 32 * 1024 * 1024

# The headers of a 200 that a 304 repeats: RFC 9110, section 15.4.5, and the links between pages.
_OF_NOT_MODIFIED: Final = frozenset({*PRIVATE, "ETag", "Link", IGNORED_HEADER, *RESPONSE_HEADERS})

_SECRET_SIZE: Final = 16

# What nearly all clients send in `Accept`: there is nothing to choose.
_TAKES_JSON: Final = frozenset({ANY, JSON})


class Cacheable(NamedTuple):
    """An answer that was just made, and the headers that it is sent with."""

    answer: Answer
    headers: AnswerHeaders


# Set by a handler, for this layer.
_CACHEABLE: Final = web.RequestKey("cacheable", Cacheable)

# The key of the cached response that answered the request.
CACHE_KEY: Final = web.RequestKey("cache_key", bytes)


@dataclass(slots=True)
class CachedResponse:
    """A cached response with what it depends on."""

    answer: Answer
    headers: AnswerHeaders
    namespaces: tuple[str, ...]
    versions: Versions
    principal: Principal
    # Encoded on the first hit: most responses are never repeated.
    head: bytes | None = None
    not_modified: bytes | None = None

    @property
    def is_timeless(self) -> bool:
        """Whether its validity does not depend on the time."""
        answer, until = self.answer, self.principal.until
        return until is None and answer.until is None and answer.since is None

    def holds_at(self, now: datetime) -> bool:
        """Whether it is valid at that moment, as far as time alone decides."""
        until = self.principal.until
        return self.answer.holds_at(now) and (until is None or now < until)

    def make_response(self, request: BaseRequest) -> StreamResponse:
        """Return the response to this request."""
        if not takes_raw_response(request):
            return _make_response(request, self.answer, self.headers)
        return RawResponse(*self.write(request.headers.getall("If-None-Match", ())))

    def write(self, if_none_match: Sequence[str]) -> tuple[bytes, bytes, HTTPStatus]:
        """Return the head, the body and the status for a request with these header fields."""
        if if_none_match and is_known(if_none_match, self.headers.etag):
            if self.not_modified is None:
                kept = _headers_of_not_modified(self.headers)
                self.not_modified = write_head(kept, None, HTTPStatus.NOT_MODIFIED)
            return self.not_modified, b"", HTTPStatus.NOT_MODIFIED
        if self.head is None:
            self.head = self.headers.write_head(len(self.answer.body))
        return self.head, self.answer.body, HTTPStatus.OK


class ResponseCache:
    """The cached responses of one process."""

    def __init__(
        self,
        backend: CacheBackend,
        clock: Clock,
        rate_limit: RateLimit | None,
    ) -> None:
        self._backend = backend
        self._rate_limit = rate_limit
        # How many requests were answered from the cache.
        self.hits = 0
        self._clock = clock
        self._responses: Lru[CachedResponse] = Lru(RESPONSES_MAX_BYTES)
        # With a secret in the keys, a guessed credential cannot be checked against them.
        self._secret = secrets.token_hex(_SECRET_SIZE)

    def wrap(self, handler: Handler) -> Handler:
        """Wrap the handler, so that it is called only for what is not cached."""

        async def answer(request: BaseRequest) -> StreamResponse:
            key = self._key_of(request)
            cached = None if key is None else self._responses.find(key)
            if (
                cached is None
                or await self._backend.read_versions(cached.namespaces) != cached.versions
                or not (cached.is_timeless or cached.holds_at(self._clock()))
            ):
                response = await handler(request)
                made = request.get(_CACHEABLE)
                if key is not None and made is not None and request[READER].found_all:
                    self._keep(key, request, made)
                return response
            if self._rate_limit is not None:
                try:
                    await self._rate_limit.spend(request, cached.principal.name)
                except Problem as problem:
                    return problems.response(problem)
            self.hits += 1
            request[PRINCIPAL] = cached.principal
            if key is not None:
                request[CACHE_KEY] = key
            return cached.make_response(request)

        return answer

    def find_valid(self, key: bytes) -> CachedResponse | None:
        """Return the response of that key, if it can be found valid without waiting."""
        cached = self._responses.find(key)
        if (
            cached is None
            or self._rate_limit is not None
            or self._backend.find_versions(cached.namespaces) != cached.versions
            or not (cached.is_timeless or cached.holds_at(self._clock()))
        ):
            return None
        return cached

    def _keep(self, key: bytes, request: BaseRequest, made: Cacheable) -> None:
        dependencies = request[READER].find_dependencies()
        if dependencies is None:
            return
        cached = CachedResponse(made.answer, made.headers, *dependencies, request[PRINCIPAL])
        # The names of the fields are shared by all responses.
        fields = sum(map(len, made.headers.to_dict().values()))
        deadline = time.monotonic() + RESPONSE_LIFETIME
        self._responses.keep(key, cached, made.answer.size + fields, deadline)

    def _key_of(self, request: BaseRequest) -> bytes | None:
        """Return a digest of all that the response depends on; `None` if it is not cacheable."""
        known: KnownFields | None = request.get(KNOWN_FIELDS)
        if known is not None:
            key = known.response_key.copy()
        elif request.method in READS and (begun := self.begin_key(request)) is not None:
            key = begun
        else:
            return None
        key.update(request.raw_path.encode("utf-8", "surrogateescape"))
        return key.digest()

    def begin_key(self, request: BaseRequest) -> HASH | None:
        """Return the digest without the target; `None` if no response to such fields is cached."""
        headers = request.headers
        credentials = headers.getall("Authorization", ())
        hosts = headers.getall("Host", ())
        if (
            len(credentials) != 1
            or len(hosts) != 1
            or "Expect" in headers
            # Only JSON is cached.
            or find_row_format(request) is not None
        ):
            return None
        # None of these can contain a line break.
        text = f"{self._secret}\n{hosts[0]}\n{credentials[0]}\n"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape"))


RESPONSE_CACHE: Final = web.AppKey("response_cache", ResponseCache)


def respond(
    request: BaseRequest,
    answer: Answer,
    links: Sequence[str] = (),
    *,
    ignored: str | None,
    negotiated: bool = False,
    tagged: Iterable[str] | None = None,
) -> StreamResponse:
    """Return the response of a handler with its answer, which this layer then caches.

    `links` are `Link` fields. `ignored` names parameters without effect. With `negotiated`, the
    operation has other media types too. The entity tag covers the links, or `tagged` instead.
    """
    etag = tag_of(answer, links if tagged is None else tagged)
    headers = AnswerHeaders(etag, links, ignored, negotiated)
    request[_CACHEABLE] = Cacheable(answer, headers)
    return _make_response(request, answer, headers)


def respond_uncached(
    request: BaseRequest,
    answer: Answer,
    links: Sequence[str] = (),
    *,
    ignored: str | None,
    negotiated: bool = False,
) -> StreamResponse:
    """Return the response of a handler whose answer cannot be cached."""
    headers = AnswerHeaders(tag_of(answer, links), links, ignored, negotiated)
    return _make_response(request, answer, headers)


def _make_response(request: BaseRequest, answer: Answer, headers: AnswerHeaders) -> StreamResponse:
    """Return the response of an answer with its headers, or 304 if the client has it."""
    known = request.headers.getall("If-None-Match", ())
    if known and is_known(known, headers.etag):
        return web.Response(status=304, headers=_headers_of_not_modified(headers))
    if takes_raw_response(request):
        return RawResponse(headers.write_head(len(answer.body)), answer.body)
    return web.Response(body=answer.body, headers=headers.to_dict())


def _headers_of_not_modified(headers: AnswerHeaders) -> CIMultiDict[str]:
    pairs = headers.to_dict().items()
    return CIMultiDict((name, value) for name, value in pairs if name in _OF_NOT_MODIFIED)


def find_row_format(request: BaseRequest) -> str | None:
    """Return the media type for a stream of rows, if the client prefers one to JSON."""
    fields = request.headers.getall("Accept", ())
    return None if _TAKES_JSON.issuperset(fields) else choose_row_format(fields)
