"""Documents of changes of health, for lists and series.

They are derived from the history in the test's document; only those that differ are written. Like
the rows of the search, they use the version of the test's document as an external version, so an
older result never overwrites a newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from indexing.health.history import Row, read_history
from indexing.identifiers import derive_identity_id
from indexing.names import RepositoryName
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.derived.results import Result

OF_TEST: Final = "test"
OF_SEQUENCE: Final = "sequence"
FLAKY: Final = "flaky"

# More than there are states of health.
_MOST_STATES: Final = 10
# The aggregations of changes that `sum_changes` reads.
BY_HEALTH: Final = {
    name: {"terms": {"field": name, "size": _MOST_STATES}} for name in ("health", "previous")
}

_ROWS_A_PAGE: Final = 5_000


async def list_operations(
    cluster: Cluster, stored: Sequence[tuple[Result, int]]
) -> list[Operation]:
    """Return the writes for the results of tests, each given with its document's new version.

    After a failed refresh the stored documents may be in any state, so they are looked up, and all
    of them are written. A rebuild looks them up too, and writes those that differ.
    """
    looked_up = {
        result.test.test_id
        for result, _ in stored
        if result.before.history is not None and (result.is_filling or _is_unsure(result))
    }
    routing = stored[0][0].rules.observed.routing
    found = await _find(cluster, routing, looked_up) if looked_up else {}
    operations: list[Operation] = []
    for result, version in stored:
        there = found.get(result.test.test_id, {}) if result.test.test_id in looked_up else None
        operations += _operations_of(cluster, result, version, there)
    return operations


def sum_changes(found: Mapping[str, Any]) -> dict[str, int]:
    """Return by how much the number of tests of each health has changed, from `BY_HEALTH`."""
    counts: dict[str, int] = {}
    for name, sign in (("health", 1), ("previous", -1)):
        for bucket in found[name]["buckets"]:
            health = bucket["key"]
            counts[health] = counts.get(health, 0) + sign * bucket["doc_count"]
    return counts


def _is_unsure(result: Result) -> bool:
    return result.rewrite_all or not result.before.rows


def _operations_of(
    cluster: Cluster, result: Result, version: int, there: Mapping[str, Any] | None
) -> Iterator[Operation]:
    """Yield the writes for one test; `there` has its stored documents, if they were looked up."""
    if there is None and not _is_unsure(result) and result.before.history == result.after.history:
        # Equal texts have equal rows. Most loads change no health.
        return
    test_id, name = result.test.test_id, result.test.test_name
    repository, routing = result.rules.repository.name, result.rules.observed.routing
    stored: set[Row] = set()
    if result.before.history is not None:
        stored = set(read_history(result.before.history.encode()).rows())
    before = set[Row]() if _is_unsure(result) else stored
    after = {
        _id_of(repository, name, test_id, row): row for row in result.test.rollups.history.rows()
    }
    # Also those that another process may still be writing: then the deletion has the newer version.
    gone = {_id_of(repository, name, test_id, row) for row in stored}.union(there or ())
    guard = {"version": version, "version_type": "external_gte"}
    for place in sorted(gone - after.keys()):
        yield Operation("delete", cluster.layout.changes, place, routing, guard=guard)
    for place, row in sorted(after.items()):
        source = _source_of(routing, test_id, name, place, row)
        # What was not written with the earlier version of the test is written with the new one, so
        # that no delayed write of another process replaces it.
        if row not in before or (there is not None and there.get(place) != source):
            yield Operation("index", cluster.layout.changes, place, routing, source, guard)


def list_deletions(
    cluster: Cluster, repository: RepositoryName, test_id: str, test_name: str, history: str | None
) -> list[Operation]:
    """Return deletions of all documents of a test that is being deleted, without version checks."""
    rows = () if history is None else read_history(history.encode()).rows()
    return [
        Operation(
            "delete",
            cluster.layout.changes,
            _id_of(repository, test_name, test_id, row),
            routing_of(repository),
        )
        for row in rows
    ]


async def _find(
    cluster: Cluster, routing: str, tests: Collection[str]
) -> Mapping[str, Mapping[str, Any]]:
    """Return the documents of these tests, by test and id."""
    await cluster.connection.refresh(cluster.layout.changes)
    filters = [{"term": {"repository_id": routing}}, {"terms": {"test_id": sorted(tests)}}]
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"place": "asc"}],
    }
    found: dict[str, dict[str, Any]] = {}
    async for hits in scan(cluster.connection, cluster.layout.changes, body, routing=routing):
        for hit in hits:
            source = hit["_source"]
            found.setdefault(source["test_id"], {})[hit["_id"]] = source
    return found


def _id_of(repository: RepositoryName, test_name: str, test_id: str, row: Row) -> str:
    if row.job is None:
        return f"{test_id}-{row.day}"
    identity = derive_identity_id(repository, test_name, *row.job).hex()
    return f"{identity}-{row.day}" + ("" if row.health else "-flaky")


def _source_of(routing: str, test_id: str, test_name: str, place: str, row: Row) -> dict[str, Any]:
    source: dict[str, Any] = {
        "repository_id": routing,
        "kind": OF_TEST if row.job is None else OF_SEQUENCE if row.health else FLAKY,
        "test_id": test_id,
        "test_name": test_name,
        "place": place,
        "day": row.day,
    }
    if row.job is not None:
        source["pipeline_name"], source["job_name"] = row.job
    if row.health is None:
        return source | {"verdicts": row.verdicts}
    return source | {"at": row.at, "previous": row.previous, "health": row.health}
