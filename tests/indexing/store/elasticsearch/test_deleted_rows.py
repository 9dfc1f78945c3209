"""The document of a test names the rows of the search that are deleted, as long as that matters."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from indexing.models.executions import Conclusion
from indexing.models.selections import ExecutionSelection
from indexing.store.elasticsearch import tests as documents
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.cluster import routing_of
from indexing.store.elasticsearch.derived import steps
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.elasticsearch.tests import StoredTest
from indexing.store.interface import Store
from tests.builders import NOON, WIDGETS, make_run
from tests.contracts.loading import load
from tests.indexing.store.elasticsearch.inspection import KilledError, cluster_of, names

PASSED = Conclusion.PASSED


async def read_test(store: ElasticsearchStore) -> StoredTest:
    cluster = cluster_of(store)
    test_id = str(derive_test_id(WIDGETS, "t"))
    found = await cluster.connection.get(cluster.layout.tests, test_id, routing=routing_of(WIDGETS))
    assert found is not None
    return documents.test_of(found.source)


async def load_job(store: Store, job: str) -> None:
    await load(store, make_run(f"run-{job}", job=job), ("t", PASSED))


async def remove_job(store: Store, job: str) -> None:
    await store.remove_executions(ExecutionSelection(WIDGETS, run_id=f"run-{job}"), NOON)


async def test_former_jobs_do_not_stay_in_the_document(store: ElasticsearchStore) -> None:
    await load_job(store, "lasting")
    for number in range(5):
        await load_job(store, f"job-{number}")
        await remove_job(store, f"job-{number}")
    await load_job(store, "next")
    stored = await read_test(store)
    assert set(stored.identities) == set(stored.rows) == {("ci", "lasting"), ("ci", "next")}
    # One of them comes again.
    await load_job(store, "job-1")
    assert await names(store) == ["t"] * 3
    await remove_job(store, "job-1")
    assert await names(store) == ["t"] * 2


@pytest.mark.usefixtures("leases_expire_soon")
async def test_a_row_whose_deletion_was_killed_is_deleted_later(
    store: ElasticsearchStore, other: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load_job(store, "lasting")
    await load_job(store, "former")
    with monkeypatch.context() as patched:
        patched.setattr(steps.Step, "_write_rows", _die)
        with pytest.raises(KilledError):
            await remove_job(store, "former")
    assert (await read_test(other)).is_deleted(("ci", "former"))
    assert await names(other) == ["t"] * 2
    await load_job(other, "next")
    assert await names(other) == ["t"] * 2
    await load_job(other, "another")
    assert ("ci", "former") not in (await read_test(other)).identities


async def _die(*_: object) -> list[Operation]:
    raise KilledError
