"""Metrics of the store, and of the repositories that the operator names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from indexing.errors import StoreError, StoreUnavailableError, UnknownRepositoryError
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.store import open_store
from indexing.store.interface import Store
from service.config.settings import Settings
from service.middleware.measured_store import StoreMetrics
from service.middleware.quarantine_gauges import QuarantineGauges
from tests.builders import GADGETS, NOON, WIDGETS, make_executions, make_run
from tests.service.conftest import open_door
from tests.service.front_door import FrontDoor, operations
from tests.service.middleware.test_metrics import samples

P, F = Conclusion.PASSED, Conclusion.FAILED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path)
    await opened.ensure_repository(WIDGETS)
    await opened.ensure_repository(GADGETS)
    yield opened
    await opened.close()


@pytest.fixture
async def counted(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    chosen = Settings(data_dir=tmp_path, metrics=True, metrics_repositories=(WIDGETS,))
    async for opened in open_door(replace(chosen, ingest=True)):
        opened.key = await opened.new_key(Scope.ADMIN)
        yield opened


def value_of(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(f"mergewatch_{name}", labels) or 0.0


async def test_calls_of_the_store_are_timed(counted: FrontDoor) -> None:
    await counted.get(operations()["search"])
    found = samples(await counted.get("/metrics"))
    assert found["mergewatch_store_seconds_count", "search_tests"] == 1


async def test_quarantined_tests_of_named_repositories_are_counted(counted: FrontDoor) -> None:
    for name in ("a", "b"):
        await counted.store.add_quarantine(WIDGETS, QuarantineRequest(name, "flaps"), NOON)
    again = QuarantineRequest("a", "flaps", branch="release")
    await counted.store.add_quarantine(WIDGETS, again, NOON)
    await counted.store.add_quarantine(GADGETS, QuarantineRequest("a", "flaps"), NOON)
    answer = await counted.get("/metrics")
    assert samples(answer)["mergewatch_quarantined_tests", "acme/widgets"] == 2
    assert "gadgets" not in answer.body.decode()


async def test_executions_of_named_repositories_are_counted(store: Store) -> None:
    registry = CollectorRegistry()
    measured = StoreMetrics(registry, (WIDGETS,)).measure(store)
    first, second = make_run("1"), make_run("2")
    await measured.write_results(
        WIDGETS,
        {
            first: make_executions(first, [("a", P), ("b", F)]),
            second: make_executions(second, [("a", F)]),
        },
    )
    await measured.write_executions(WIDGETS, first, make_executions(first, [("c", P)]))
    await measured.write_executions(
        GADGETS, first, make_executions(first, [("c", P)], repository=GADGETS)
    )
    for conclusion in (P, F):
        labels = {"repository": "acme/widgets", "conclusion": conclusion.value}
        assert value_of(registry, "executions_ingested_total", **labels) == 2
    assert b"gadgets" not in generate_latest(registry)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(StoreUnavailableError("down"), "unavailable"), (StoreError("no"), "error")],
)
async def test_failures_of_the_store_are_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: StoreError, reason: str
) -> None:
    async def fail() -> None:
        raise error

    monkeypatch.setattr(store, "list_repositories", fail)
    registry = CollectorRegistry()
    measured = StoreMetrics(registry, ()).measure(store)
    with pytest.raises(type(error)):
        await measured.list_repositories()
    labels = {"call": "list_repositories", "reason": reason}
    assert value_of(registry, "store_errors_total", **labels) == 1


async def test_what_a_caller_asks_for_in_vain_is_no_failure(store: Store) -> None:
    registry = CollectorRegistry()
    measured = StoreMetrics(registry, ()).measure(store)
    missing = replace(WIDGETS, name="missing")
    run = make_run()
    with pytest.raises(UnknownRepositoryError):
        await measured.write_executions(missing, run, make_executions(run, [("a", P)]))
    assert {"mergewatch_store_errors": []}.items() <= {
        family.name: family.samples for family in registry.collect()
    }.items()


async def test_a_repository_that_cannot_be_read_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(store, "list_quarantines", fail)
    gauges = QuarantineGauges(store, (WIDGETS,), lambda: NOON)
    await gauges.refresh()
    assert [family.samples for family in gauges.collect()] == [[]]
