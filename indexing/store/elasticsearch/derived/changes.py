"""Documents of changes of health, for lists and series.

They are derived from the history in the test's document; only those that differ are written. Like
the rows of the search, they use the version of the test's document as an external version, so an
older result never overwrites a newer one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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

_ROWS_A_PAGE: Final = 5_000


async def list_operations(
    cluster: Cluster, stored: Sequence[tuple[Result, int]], *, rewrite_all: bool
) -> list[Operation]:
    """Return the writes for the results of tests, each given with its document's new version.

    With `rewrite_all`, the stored documents may be in any state, so they are looked up first.
    """
    unsure = {
        result.test.test_id
        for result, _ in stored
        if result.before.history is not None and (rewrite_all or not result.before.rows)
    }
    found = (
        await _find_ids(cluster, stored[0][0].rules.executions.routing, unsure) if unsure else {}
    )
    operations: list[Operation] = []
    for result, version in stored:
        test_id = result.test.test_id
        before: set[Row] = set()
        if result.before.history is not None and test_id not in unsure:
            before = set(read_history(result.before.history.encode()).rows())
        after = set(result.test.rollups.history.rows())
        repository, name = result.rules.repository.name, result.test.test_name
        kept = {_id_of(repository, name, test_id, row) for row in after}
        gone = {_id_of(repository, name, test_id, row) for row in before - after}
        gone |= set(found.get(test_id, ()))
        guard = {"version": version, "version_type": "external_gte"}
        routing = result.rules.executions.routing
        operations += (
            Operation("delete", cluster.layout.changes, each, routing, guard=guard)
            for each in sorted(gone - kept)
        )
        for row in sorted(after - before, key=lambda row: (row.day, row.job or ())):
            place = _id_of(repository, name, test_id, row)
            source = _source_of(routing, test_id, name, place, row)
            operations.append(
                Operation("index", cluster.layout.changes, place, routing, source, guard)
            )
    return operations


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


async def _find_ids(
    cluster: Cluster, routing: str, tests: Collection[str]
) -> Mapping[str, Sequence[str]]:
    """Return the ids of the documents of these tests, by test."""
    await cluster.connection.refresh(cluster.layout.changes)
    filters = [{"term": {"repository_id": routing}}, {"terms": {"test_id": sorted(tests)}}]
    body = {
        "size": _ROWS_A_PAGE,
        "query": {"bool": {"filter": filters}},
        "sort": [{"place": "asc"}],
        "_source": ["test_id"],
    }
    found: dict[str, list[str]] = {}
    async for hits in scan(cluster.connection, cluster.layout.changes, body, routing=routing):
        for hit in hits:
            found.setdefault(hit["_source"]["test_id"], []).append(hit["_id"])
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
