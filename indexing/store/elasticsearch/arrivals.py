"""Events in the order of arrival: each is stamped with the time at which its writer sends it.

No sequence orders the writes of several processes. So a reader lets the newest stamps settle: it
reads what was stamped at least `SETTLING_SECONDS` ago. What searches see later than half of that
after its stamp is stamped and written again, and then with a time to come: a cluster that is slow
once is slow again. So nothing is missed while the clocks of the processes agree within the other
half; what was written again may come twice. One gap is left: if a process is killed, or its cluster
fails, after a slow write and before the second one, readers may have passed that stamp.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from indexing.errors import StoreError
from indexing.models.arrivals import Arrival, ArrivalKey, Arrivals
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.cluster import Cluster, routing_of

STAMP: Final = "arrived_at"
SETTLING_SECONDS: Final = 3.0
# A write again is given this many times as long as the one before it took.
_AHEAD: Final = 2
# Only a cluster that gets slower and slower needs more than one.
_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


async def send_stamped(
    cluster: Cluster, operations: Sequence[Operation]
) -> list[Outcome | StoreError]:
    """Write new events in their order, and make them visible; failures are returned.

    Raises:
        StoreUnavailableError: the cluster does not answer.
    """
    began, stamped = time.monotonic(), _now()
    outcomes = await cluster.slices.send_each(_stamp(operations, stamped))
    sent = zip(operations, outcomes, strict=True)
    there = [(each, o) for each, o in sent if isinstance(o, Outcome) and not o.failed]
    # Those that exist already may not be visible yet: another call has just written them.
    await bulk.make_visible(cluster.connection, [each for each, _ in there])
    written = [each for each, outcome in there if outcome.done]
    for _ in range(_ATTEMPTS):
        if not written or _is_in_time(stamped):
            return outcomes
        took, began = time.monotonic() - began, time.monotonic()
        stamped = _now() + int(_AHEAD * took * 1_000_000)
        again = [replace(each, action="index", guard=None) for each in _stamp(written, stamped)]
        # Retention may delete a slice meanwhile.
        await bulk.send(cluster.connection, again, visible=True, may_be_gone=True)
    if not _is_in_time(stamped):
        _log.warning("the cluster is so slow that streams may miss %d events", len(written))
    return outcomes


def _is_in_time(stamped: int) -> bool:
    """Return whether readers have not passed what is visible now and has that stamp."""
    return _now() - stamped < SETTLING_SECONDS / 2 * 1_000_000


def _stamp(operations: Sequence[Operation], first: int) -> list[Operation]:
    return [
        replace(each, source={**(each.source or {}), STAMP: first + number})
        for number, each in enumerate(operations)
    ]


async def find_newest(_cluster: Cluster) -> ArrivalKey:
    """Return the place after everything that has arrived."""
    return ArrivalKey(_now())


async def list_arrivals(
    cluster: Cluster, after: ArrivalKey, limit: int, repository: RepositoryName | None
) -> Arrivals:
    retention = await cluster.control.read_retention()
    settled = _now() - int(SETTLING_SECONDS * 1_000_000)
    filters: list[dict[str, Any]] = [{"range": {STAMP: {"gte": after.sequence, "lte": settled}}}]
    routing = None
    if repository is not None:
        routing = routing_of(repository)
        filters.append({"term": {"repository_id": routing}})
    body = {
        "size": limit,
        "query": {"bool": {"filter": filters, "must_not": retention.hidden("received_at")}},
        "sort": [{STAMP: "asc"}, {"received_at": "asc"}, {"id": "asc"}],
        "search_after": list(after),
        "track_total_hits": False,
        "_source": ["repository_id", "type", "body"],
    }
    answer = await cluster.connection.search(cluster.layout.events, body, routing=routing)
    rows = tuple(_arrival_of(hit) for hit in answer["hits"]["hits"])
    is_all = len(rows) < limit
    until = max(ArrivalKey(settled), after, *(row.key for row in rows)) if is_all else rows[-1].key
    return Arrivals(rows, until, is_all)


def _arrival_of(hit: Any) -> Arrival:
    source = hit["_source"]
    return Arrival(
        ArrivalKey(*hit["sort"]),
        bytes.fromhex(source["repository_id"]),
        source["type"],
        source["body"].encode(),
    )


def _now() -> int:
    return time.time_ns() // 1_000
