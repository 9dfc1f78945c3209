"""What a rebuild writes: no more than what differs, and whatever has been damaged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from indexing.models.executions import Conclusion
from indexing.store.elasticsearch.store import ElasticsearchStore
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ask, cluster_of, names

pytestmark = pytest.mark.fresh_indices

PASSED, FAILED = Conclusion.PASSED, Conclusion.FAILED
TESTS = ["t0", "t1", "t2"]


async def fill(store: ElasticsearchStore) -> None:
    """Load two days: on the first one all tests fail, on the second one they pass."""
    await store.ensure_repository(WIDGETS)
    for day, conclusion in enumerate((FAILED, PASSED)):
        run = make_run(str(day), commit=f"c{day}")
        at = after(days=day - 2)
        executions = make_executions(run, [(name, conclusion) for name in TESTS], at)
        await store.write_results(WIDGETS, {run: executions})
        await store.refresh_tests(NOON)


def count_writes(store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the documents that bulk requests write from now on, by index."""
    layout, connection = cluster_of(store).layout, cluster_of(store).connection
    request, counted = connection.request, Counter[str]()

    async def counting(method: str, target: str, body: Any = None, **options: Any) -> Any:
        if target.startswith("/_bulk"):
            for line in body.splitlines():
                action = orjson.loads(line)
                about = action.get("index") or action.get("create") or action.get("delete")
                if about is not None:
                    counted[about["_index"].removeprefix(layout.prefix)] += 1
        return await request(method, target, body, **options)

    monkeypatch.setattr(connection, "request", counting)
    return counted


async def documents(store: ElasticsearchStore, index: str) -> dict[str, Any]:
    await ask(store, "POST", f"/{index}/_refresh")
    found = await ask(store, "POST", f"/{index}/_search", {"size": 100})
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


async def test_a_rebuild_writes_each_test_and_its_new_row_once(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    layout = cluster_of(store).layout
    before = (await cluster_of(store).control.read()).identities
    counted = count_writes(store, monkeypatch)
    assert await store.rebuild(NOON) == len(TESTS)
    after_it = (await cluster_of(store).control.read()).identities
    prefix = layout.identities.removeprefix(layout.prefix)
    # The test too: a process that read it before the new generation existed must not write it.
    assert counted["-tests"] == len(TESTS)
    assert counted[f"{prefix}-{after_it}"] == len(TESTS)
    assert counted[f"{prefix}-{before}"] == 0
    assert counted["-changes"] == 0
    assert await names(store) == TESTS


async def test_a_rebuild_repairs_tests_and_changes_of_health(store: ElasticsearchStore) -> None:
    await fill(store)
    layout = cluster_of(store).layout
    whole = await documents(store, layout.changes), await documents(store, layout.tests)
    changes, tests = whole
    gone, wrong, *_ = sorted(changes)
    routing = changes[gone]["repository_id"]
    place = f"/{layout.changes}/_doc"
    await ask(store, "DELETE", f"{place}/{gone}?routing={routing}")
    await ask(store, "PUT", f"{place}/{wrong}?routing={routing}", changes[wrong] | {"at": 1})
    await ask(store, "PUT", f"{place}/stray?routing={routing}", changes[wrong])
    (some, *_) = sorted(tests)
    damaged = tests[some] | {"health_status": "broken"}
    await ask(store, "PUT", f"/{layout.tests}/_doc/{some}?routing={routing}", damaged)
    assert await documents(store, layout.changes) != changes
    await store.rebuild(NOON)
    assert (await documents(store, layout.changes), await documents(store, layout.tests)) == whole


async def test_a_rebuild_writes_rows_that_it_finds_to_be_wrong_for_readers_too(
    store: ElasticsearchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    layout = cluster_of(store).layout
    tests = await documents(store, layout.tests)
    some = min(tests)
    ((pipeline, job, (values, filepath)),) = tests[some]["rows"]
    damaged = tests[some] | {"rows": [[pipeline, job, [[99, *values[1:]], filepath]]]}
    routing = damaged["repository_id"]
    await ask(store, "PUT", f"/{layout.tests}/_doc/{some}?routing={routing}", damaged)
    before = layout.identities_of((await cluster_of(store).control.read()).identities)
    counted = count_writes(store, monkeypatch)
    await store.rebuild(NOON)
    assert counted[before.removeprefix(layout.prefix)] == 1
    assert await documents(store, layout.tests) == tests
