"""Requests to Elasticsearch: connections, timeouts, retries and error translation.

Every response of the cluster passes through this module, and no exception of the driver leaves it.
The transport of the official client handles nodes and failover, over the connections of `HttpNode`.
This module retries requests with a transient error status, because the transport would do so
without a pause.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, urlencode

from elastic_transport import AsyncTransport, NodeConfig
from elastic_transport.client_utils import url_to_node_config
from elasticsearch import VERSION, OrjsonSerializer, SerializationError, TransportError

from indexing.errors import StoreError, StoreUnavailableError
from indexing.store.elasticsearch.client.answers import (
    document_of,
    error_in,
    failure_in,
    is_answer,
    is_refused,
    raise_first,
)
from indexing.store.elasticsearch.client.compression import (
    GZIP,
    LONG_BODY,
    compress,
    is_worthwhile,
)
from indexing.store.elasticsearch.client.documents import Document, Version
from indexing.store.elasticsearch.client.failures import (
    INDEX_GONE,
    NOT_FOUND,
    SAY_ENOUGH,
    ConflictError,
    describe,
    error_of,
    is_passing,
    type_of,
)
from indexing.store.elasticsearch.client.http_node import HttpNode
from indexing.store.elasticsearch.client.node_pool import AnsweringNodes
from indexing.store.elasticsearch.client.places import WILDCARDS, Place, Search
from indexing.store.elasticsearch.client.search_queue import RequestQueue
from indexing.store.elasticsearch.client.shared_refreshes import SharedRefreshes
from indexing.store.elasticsearch.client.write_priority import WritePriority

# The media types name the client's major version, so that a newer server answers in its format.
_JSON, _NDJSON = (
    f"application/vnd.elasticsearch+{form}; compatible-with={VERSION[0]}"
    for form in ("json", "x-ndjson")
)
_SERIALIZED: Final = (
    "application/json",
    "application/vnd.elasticsearch+json",
    "application/vnd.elasticsearch+x-ndjson",
)

# The headers for each form of a request body; None stands for a request without a body.
_FORMS: Final[dict[str | None, dict[str, str]]] = {
    None: {},
    _JSON: {"content-type": _JSON},
    _NDJSON: {"content-type": _NDJSON},
    GZIP: {"content-type": _NDJSON, "content-encoding": GZIP},
}

# A node has fewer search threads than this, so excess requests queue in the node, not here.
_CONNECTIONS_PER_NODE: Final = 64

_COMPLETE: Final = "?" + urlencode(
    {"allow_partial_search_results": "false", "expand_wildcards": WILDCARDS}
)

# Keeps a request and its response far below the HTTP limit of a node, 100 MB.
_DOCUMENTS_A_REQUEST: Final = 2_000

_FIRST_PAUSE: Final = 0.05

# The transport logs a warning with a traceback for each failed attempt; this module raises instead.
logging.getLogger("elastic_transport").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds: `total` for a request with its retries, `attempt` for each try."""

    total: float
    attempt: float


# A reader gets an answer or an error within two seconds. With several nodes, the shorter attempt
# leaves time to try another node after the first one timed out.
READING: Final = Timeouts(total=1.7, attempt=1.6)
READING_AMONG_SEVERAL: Final = Timeouts(total=1.7, attempt=0.85)
# Enough for a bulk request of the largest size on a busy cluster, or the election of a new master.
WRITING: Final = Timeouts(total=60.0, attempt=30.0)


class Connection:
    """The connections of one process to one cluster; create, use and close on one event loop."""

    def __init__(self, urls: Sequence[str], api_key: str | None = None) -> None:
        nodes = [_node_of(url) for url in urls]
        several = len(nodes) > 1
        self._name = "Elasticsearch at " + ", ".join(f"{n.host}:{n.port}" for n in nodes)
        self.write_priority = WritePriority()
        self._refreshes = SharedRefreshes(self._refresh)
        self._queue = RequestQueue(len(nodes), _CONNECTIONS_PER_NODE)
        self.reading = READING_AMONG_SEVERAL if several else READING
        self._transport = AsyncTransport(
            nodes,
            node_class=HttpNode,
            node_pool_class=AnsweringNodes,
            serializers=dict.fromkeys(_SERIALIZED, OrjsonSerializer()),
            # At least one retry: the server may have closed a kept-alive connection.
            max_retries=max(1, len(nodes) - 1),
            retry_on_timeout=several,
            retry_on_status=(),
            meta_header=False,
        )
        self._compresses = is_worthwhile(node.host for node in nodes)
        common = {"accept": _JSON} | ({"authorization": f"ApiKey {api_key}"} if api_key else {})
        # The request headers by form of the body and timeout, built once for all requests.
        self._headers = {
            (form, timeouts): common | headers | self._accepted(timeouts)
            for form, headers in _FORMS.items()
            for timeouts in (self.reading, READING, WRITING)
        }

    def _accepted(self, timeouts: Timeouts) -> dict[str, str]:
        # Only requests with the long timeout ask for compressed responses: the refreshes and
        # maintenance that send them read long pages.
        return {"accept-encoding": GZIP} if self._compresses and timeouts is WRITING else {}

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        timeouts: Timeouts | None = None,
        allow: Collection[int] = (),
        needs: str | None = None,
    ) -> Any:
        """Send one request and return the decoded response.

        A body of bytes is sent as lines of JSON. Transient errors are retried within `timeouts`
        (default: that of reads). Statuses in `allow` are returned and not raised. Unless it is an
        error, the response has the field `needs`; that of a proxy, for example, has not.

        Raises:
            ConflictError: 409.
            LargeAnswerError: the response has more than `max_body_bytes`.
            StoreUnavailableError: no response in time, or an error that a retry may resolve.
            StoreError: any other error.
        """
        timeouts = timeouts or self.reading
        form: str | None = None if body is None else _JSON
        if isinstance(body, bytes):
            form = _NDJSON
            if self._compresses and len(body) >= LONG_BODY:
                form, body = GZIP, compress(body)
        headers = self._headers[form, timeouts]
        pause, attempt = _FIRST_PAUSE, timeouts.attempt
        is_read = timeouts is not WRITING
        status = 0
        answer: Any = None
        try:
            async with asyncio.timeout(timeouts.total):
                while True:
                    async with self._queue.slot(method, is_read=is_read):
                        response = await self._transport.perform_request(
                            method, target, body=body, headers=headers, request_timeout=attempt
                        )
                    status, answer = response.meta.status, response.body
                    if status in allow or not is_passing(status, failure_in(answer)):
                        break
                    await asyncio.sleep(pause)
                    pause *= 2
        except TimeoutError as error:
            reason = f"answers {status} ({describe(failure_in(answer))})"
            what = reason if status else "does not answer"
            raise StoreUnavailableError(f"{self._name} {what}") from error
        except SerializationError as error:
            raise self._unreadable() from error
        except TransportError as error:
            # The text is that of `HttpNode`, without the URL, which may hold a password.
            why = ": ".join(filter(None, (type(error).__name__, error.message)))
            raise StoreUnavailableError(f"{self._name} cannot be reached ({why})") from error
        is_failure = status >= 300 and status not in allow
        if is_failure and (isinstance(failure_in(answer), dict) or status in SAY_ENOUGH):
            raise error_of(status, answer)
        if is_failure or not is_answer(answer, needs):
            # For example, the response is the error page of a proxy.
            raise self._unreadable(f", but the status {status}")
        return answer

    def _unreadable(self, what: str = "") -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._name} gives no readable answer{what}")

    async def get(
        self, index: str, document: str, *, routing: str | None = None
    ) -> Document | None:
        """Return the current version of one document, even before a refresh."""
        target = f"/{index}/_doc/{quote(document, safe='')}" + _query(routing=routing)
        return document_of(await self.request("GET", target, allow={NOT_FOUND}, needs="found"))

    async def get_many(
        self,
        places: Sequence[Place],
        *,
        without: Sequence[str] = (),
        may_be_gone: bool = False,
        timeouts: Timeouts | None = None,
    ) -> list[Document | None]:
        """Return the current version of the document at each place; None if it is missing.

        Documents have all fields except `without`. With `may_be_gone`, a missing index counts as
        empty.
        """
        found = await self.get_each(
            places, without=without, may_be_gone=may_be_gone, timeouts=timeouts
        )
        return raise_first(found)

    async def get_each(
        self,
        places: Sequence[Place],
        *,
        without: Sequence[str] = (),
        may_be_gone: bool = False,
        timeouts: Timeouts | None = None,
    ) -> list[Document | StoreError | None]:
        """Return what `get_many` returns, or an error for each place that cannot be read."""
        documents: list[Document | StoreError | None] = []
        target = "/_mget" + _query(_source_excludes=",".join(without) or None)
        for start in range(0, len(places), _DOCUMENTS_A_REQUEST):
            docs = [place.asked for place in places[start : start + _DOCUMENTS_A_REQUEST]]
            body = {"docs": docs}
            answer = await self.request("POST", target, body, timeouts=timeouts, needs="docs")
            for found in answer["docs"]:
                if "error" not in found:
                    documents.append(document_of(found))
                elif may_be_gone and type_of(found["error"]) == INDEX_GONE:
                    documents.append(None)
                else:
                    documents.append(error_of(503, found))
        return documents

    async def put(
        self,
        index: str,
        document: str,
        source: Mapping[str, Any],
        *,
        over: Version | None = None,
        routing: str | None = None,
        visible: bool = True,
    ) -> None:
        """Replace the version `over` of a document; create the document if `over` is None.

        With `visible`, every search that begins afterwards sees it. Does nothing if the document is
        already as it should be.

        Raises:
            ConflictError: the document has changed since, or exists already.
        """
        guard = {"op_type": "create"} if over is None else over.parameters
        query = _query(routing=routing, refresh="true" if visible else None, **guard)
        target = f"/{index}/_doc/{quote(document, safe='')}" + query
        try:
            await self.request("PUT", target, source, timeouts=WRITING, needs="_seq_no")
        except ConflictError:
            # A request whose response was lost is sent again, and conflicts with itself.
            found = await self.get(index, document, routing=routing)
            if found is None or not found.holds(source):
                raise
            if visible:
                # The lost response would have said so.
                await self.refresh(index)

    async def search(
        self,
        index: str,
        body: Mapping[str, Any],
        *,
        routing: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> Any:
        """Search all shards; a partial result is an error.

        An index that is named must exist; a pattern may match no index.

        Raises:
            TooComplexError: the engine refuses a pattern of the query.
        """
        target = f"/{index}/_search{_COMPLETE}"
        if routing is not None:
            target += f"&routing={quote(routing, safe='')}"
        answer = await self.request("POST", target, body, timeouts=timeouts, needs="_shards")
        if (error := error_in(answer)) is not None:
            raise error
        return answer

    async def search_many(
        self,
        searches: Sequence[Search],
        *,
        timeouts: Timeouts | None = None,
    ) -> list[Any]:
        """Run several searches in one request; raises the same errors as `search`.

        The cluster answers such a request even if it refuses some of the searches for a moment.
        Like `search`, this then sends them again.
        """
        timeouts = timeouts or self.reading
        deadline = asyncio.get_running_loop().time() + timeouts.total
        found = await self._search_each(searches, timeouts)
        pause = _FIRST_PAUSE
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while refused := [n for n, each in enumerate(found) if is_refused(each)]:
                    await asyncio.sleep(pause)
                    pause *= 2
                    again = await self._search_each([searches[n] for n in refused], timeouts)
                    for number, each in zip(refused, again, strict=True):
                        found[number] = each
        return raise_first([error_in(each) or each for each in found])

    async def search_each(self, searches: Sequence[Search]) -> list[Any]:
        """Run several searches in one request, once; return an answer or an error for each."""
        found = await self._search_each(searches, self.reading)
        return [error_in(each) or each for each in found]

    async def _search_each(self, searches: Sequence[Search], timeouts: Timeouts) -> list[Any]:
        body = b"\n".join([*chain.from_iterable(search.lines for search in searches), b""])
        answer = await self.request("POST", "/_msearch", body, timeouts=timeouts, needs="responses")
        return list(answer["responses"])

    async def count(
        self,
        index: str,
        query: Mapping[str, Any] | None = None,
        *,
        routing: str | None = None,
    ) -> int:
        """Count the matching documents, or all of them without a query; with the long timeout."""
        body: dict[str, Any] = {"size": 0, "track_total_hits": True}
        if query is not None:
            body["query"] = query
        answer = await self.search(index, body, routing=routing, timeouts=WRITING)
        total: int = answer["hits"]["total"]["value"]
        return total

    async def refresh(self, index: str) -> None:
        """Refresh the index: every search that begins afterwards sees all earlier writes.

        Concurrent callers share one request.
        """
        await self._refreshes.refresh(index)

    async def _refresh(self, index: str) -> None:
        target = f"/{index}/_refresh?ignore_unavailable=true"
        answer = await self.request("POST", target, timeouts=WRITING, needs="_shards")
        if (error := error_in(answer)) is not None:
            raise error


def _node_of(url: str) -> NodeConfig:
    node = url_to_node_config(url, use_default_ports_for_scheme=True)
    # Trust the certificates of this machine and those that SSL_CERT_FILE adds.
    context = ssl.create_default_context() if node.scheme == "https" else None
    return node.replace(connections_per_node=_CONNECTIONS_PER_NODE, ssl_context=context)


def _query(**parameters: Any) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""
