"""Counts the stored results of runs: one document for each arrival, one for each arrival and day.

An arrival is all results that describe their run in the same way. A refresh counts the runs that
its dirty markers name. If it is killed, the marker remains, and the next refresh counts again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.client import bulk
from indexing.store.elasticsearch.client.bulk import Operation, Outcome
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.places import Place, Search
from indexing.store.elasticsearch.client.scanning import groups_body, scan, scan_groups
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.derived.dirty_markers import mark_runs
from indexing.store.elasticsearch.derived.observation_clauses import FINISHED_AT
from indexing.store.elasticsearch.derived.runs import ResultsOfRun, results_query
from indexing.store.elasticsearch.indices.retention import Retention
from indexing.store.elasticsearch.repositories import read_removal
from indexing.timestamps import DAY_MICROSECONDS

# The fields that all executions of one arrival have in common.
SHARED: Final = (
    "run",
    "run_id",
    "attempt",
    "pipeline_name",
    "job_name",
    "branch",
    "commit",
    "pull_number",
    "job_url",
)
# Those of these fields that the document of a day contains.
_OF_DAY: Final = ("run", "pipeline_name", "job_name", "branch")
OF_RUN: Final = "run"
_BY_DAY: Final = {"day": {"histogram": {"field": FINISHED_AT, "interval": DAY_MICROSECONDS}}}
_GROUPED: Final = ("arrival", _BY_DAY)

# The key of a document: its index and its id.
Counted = tuple[str, str]

RUNS_AT_ONCE: Final = 500
_GROUPS_A_PAGE: Final = 500
_ROWS_A_PAGE: Final = 5_000
_WITHIN: Final = {
    "shared": {"top_hits": {"size": 1, "_source": [*SHARED]}},
    "first": {"min": {"field": FINISHED_AT}},
    "last": {"max": {"field": FINISHED_AT}},
    "durations": {"value_count": {"field": "microseconds"}},
    "total_duration": {"sum": {"field": "microseconds"}},
    **{each.value: {"filter": {"term": {"conclusion": each.value}}} for each in Conclusion},
}


async def count(
    cluster: Cluster,
    routing: str,
    runs: Collection[str],
    searchable: Awaitable[None] | None = None,
    *,
    removed: bool = False,
) -> None:
    """Count the stored results of these runs, and store the counts.

    Makes the executions searchable first, or waits for `searchable`, which does so. With `removed`,
    the documents of arrivals without executions are deleted. If results are deleted meanwhile,
    counts again: the process that deletes them may have found no counts to delete. If that goes
    on, the next refresh counts the runs.
    """
    waiting = sorted(runs)
    if not waiting:
        return
    removal = await read_removal(cluster, routing)
    await (searchable or cluster.connection.refresh(cluster.layout.executions))
    await _count_all(cluster, routing, waiting, removed=removed)
    newest = await read_removal(cluster, routing)
    if newest == removal:
        return
    await cluster.connection.refresh(cluster.layout.executions)
    await _count_all(cluster, routing, waiting, removed=True)
    if await read_removal(cluster, routing) != newest:
        await mark_runs(cluster, routing, waiting)


async def _count_all(cluster: Cluster, routing: str, runs: Sequence[str], *, removed: bool) -> None:
    for start in range(0, len(runs), RUNS_AT_ONCE):
        some = list(runs[start : start + RUNS_AT_ONCE])
        while some:
            some = await _count_some(cluster, routing, some, removed=removed)


async def count_repository(cluster: Cluster, routing: str) -> None:
    """Count all runs of a repository again; delete the counts of runs without results."""
    layout = cluster.layout
    await cluster.connection.refresh(layout.arrivals)
    async for buckets in scan_groups(
        cluster.connection,
        f"{layout.executions},{layout.arrivals}",
        {"term": {"repository_id": routing}},
        ("run",),
        size=RUNS_AT_ONCE,
        routing=routing,
    ):
        runs = {bucket["key"]["run"] for bucket in buckets}
        await count(cluster, routing, runs, removed=True)


async def drop_before(cluster: Cluster, moment: int) -> None:
    """Count runs again that lost results to retention before `moment`; delete those without any."""
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"range": {"first_at": {"lt": moment}}},
        "sort": [{"first_at": "asc"}, {"arrival": "asc"}],
        "_source": ["repository_id", "run"],
    }
    await cluster.connection.refresh(cluster.layout.arrivals)
    touched: dict[str, set[str]] = {}
    async for hits in scan(cluster.connection, cluster.layout.arrivals, body):
        for hit in hits:
            touched.setdefault(hit["_source"]["repository_id"], set()).add(hit["_source"]["run"])
    for routing, runs in touched.items():
        await count(cluster, routing, runs, removed=True)


def list_places(
    cluster: Cluster, routing: str, arrivals: Collection[tuple[str, int]]
) -> list[Place]:
    """Return the places of the documents of arrivals, each given as (arrival id, UTC day)."""
    layout = cluster.layout
    return [
        *(Place(layout.arrivals, each, routing) for each in sorted({each for each, _ in arrivals})),
        *(Place(layout.days, _id_of_day(*each), routing) for each in sorted(arrivals)),
    ]


async def _count_some(
    cluster: Cluster, routing: str, runs: Collection[str], *, removed: bool
) -> list[str]:
    """Count some runs; return those to count again, because another process counted them too."""
    retention = await cluster.control.read_retention()
    known = await _find_places(cluster, routing, runs, retention, removed=removed)
    places = [Place(index, place, routing) for index, place in known]
    # Read the versions before counting: if another process stores newer counts meanwhile, the write
    # conflicts.
    documents = await cluster.connection.get_many(places, timeouts=WRITING)
    retention = (await cluster.control.read()).retention
    counted = await read_counts(cluster, routing, runs, retention)
    stored = dict.fromkeys(counted) | dict(zip(known, documents, strict=True))
    counting = Counting.of(routing, stored, counted)
    outcomes = await bulk.send(cluster.connection, counting.operations, visible=True)
    return counting.find_conflicts(outcomes)


@dataclass(frozen=True, slots=True)
class Counting:
    """The writes of counts that differ from the stored ones, and the run of each write."""

    operations: Sequence[Operation] = ()
    runs: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        routing: str,
        documents: Mapping[Counted, Document | None],
        counted: Mapping[Counted, Mapping[str, Any]],
    ) -> Counting:
        """Compare the stored documents with the counts; they must be read before the counting."""
        operations: list[Operation] = []
        runs: list[str] = []
        for place, document in documents.items():
            source = counted.get(place)
            stored = None if document is None else document.source
            if source == stored:
                continue
            action: bulk.Action = "create" if stored is None else "index"
            guard = None if document is None else document.version.parameters
            operations.append(
                Operation("delete" if source is None else action, *place, routing, source, guard)
            )
            runs.append((source or stored or {})["run"])
        return cls(operations, runs)

    def find_conflicts(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Return the runs to count again, because another process has written their counts."""
        sent = zip(self.runs, outcomes, strict=True)
        return sorted({run for run, outcome in sent if outcome.conflicts})


async def _find_places(
    cluster: Cluster,
    routing: str,
    runs: Collection[str],
    retention: Retention,
    *,
    removed: bool,
) -> list[Counted]:
    """Return the keys of the documents of these runs.

    With `removed`, they include stored documents of arrivals that have no results left.
    """
    layout = cluster.layout
    found: dict[Counted, None] = {}
    async for buckets in scan_groups(
        cluster.connection,
        layout.executions,
        results_query(routing, runs, retention),
        _GROUPED,
        size=_ROWS_A_PAGE,
        routing=routing,
    ):
        for bucket in buckets:
            arrival = bucket["key"]["arrival"]
            found[layout.arrivals, arrival] = None
            found[layout.days, _id_of_day(arrival, _day_of(bucket))] = None
    if removed:
        filters = [{"term": {"repository_id": routing}}, {"terms": {"run": [*runs]}}]
        for index, order in ((layout.arrivals, "arrival"), (layout.days, "place")):
            body = {
                "size": _ROWS_A_PAGE,
                "query": {"bool": {"filter": filters}},
                "sort": [{order: "asc"}],
                "_source": False,
            }
            await cluster.connection.refresh(index)
            async for hits in scan(cluster.connection, index, body, routing=routing):
                found.update(((index, hit["_id"]), None) for hit in hits)
    return list(found)


def counts_search(
    cluster: Cluster, routing: str, runs: Collection[str], retention: Retention
) -> Search:
    """Return the search for the first page of counts, for use with `read_counts`."""
    query = results_query(routing, runs, retention)
    body = groups_body(query, _GROUPED, size=_GROUPS_A_PAGE, within=_WITHIN)
    return Search(cluster.layout.executions, body, routing)


async def read_counts(
    cluster: Cluster,
    routing: str,
    runs: Collection[str],
    retention: Retention,
    first: Any = None,
) -> dict[Counted, dict[str, Any]]:
    """Count the stored executions of these runs; return the documents with these counts.

    `first` is the response to `counts_search`, if the caller has it already.
    """
    layout = cluster.layout
    found: dict[Counted, dict[str, Any]] = {}
    async for buckets in scan_groups(
        cluster.connection,
        layout.executions,
        results_query(routing, runs, retention),
        _GROUPED,
        size=_GROUPS_A_PAGE,
        routing=routing,
        within=_WITHIN,
        first=first,
    ):
        for bucket in buckets:
            (hit,) = bucket["shared"]["hits"]["hits"]
            shared = {name: hit["_source"].get(name) for name in SHARED}
            arrival, day = bucket["key"]["arrival"], _day_of(bucket)
            counted = {each.value: bucket[each.value]["doc_count"] for each in Conclusion}
            place = _id_of_day(arrival, day)
            found[layout.days, place] = {
                "repository_id": routing,
                "kind": OF_RUN,
                "place": place,
                **{name: shared[name] for name in _OF_DAY},
                "day": day,
                **counted,
                "durations": bucket["durations"]["value"],
                "total_duration": float(bucket["total_duration"]["value"]),
            }
            first_at, last_at = int(bucket["first"]["value"]), int(bucket["last"]["value"])
            source = found.setdefault(
                (layout.arrivals, arrival),
                {
                    "repository_id": routing,
                    "arrival": arrival,
                    **shared,
                    "first_at": first_at,
                    FINISHED_AT: last_at,
                    **dict.fromkeys(counted, 0),
                },
            )
            source["first_at"] = min(source["first_at"], first_at)
            source[FINISHED_AT] = max(source[FINISHED_AT], last_at)
            for name, number in counted.items():
                source[name] += number
    return found


def sum_by_run(
    cluster: Cluster, counted: Mapping[Counted, Mapping[str, Any]]
) -> dict[str, ResultsOfRun]:
    """Return the results of each run: the sums of the counts that `read_counts` returned."""
    found: dict[str, ResultsOfRun] = {}
    for (index, _), each in counted.items():
        if index != cluster.layout.arrivals:
            continue
        before = found.get(each["run"], ResultsOfRun(last_at=each[FINISHED_AT]))
        found[each["run"]] = ResultsOfRun(
            before.passed + each[Conclusion.PASSED],
            before.failed + each[Conclusion.FAILED],
            max(before.last_at or 0, each[FINISHED_AT]),
        )
    return found


def _day_of(bucket: Mapping[str, Any]) -> int:
    start: float = bucket["key"]["day"]
    return round(start / DAY_MICROSECONDS)


def _id_of_day(arrival: str, day: int) -> str:
    return f"{arrival}-{day}"
