"""Metrics of the store, and of the repositories that the operator names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from indexing.errors import StoreError, StoreUnavailableError, UnknownRepositoryError
from indexing.models.executions import Conclusion
from indexing.models.keys import Scope
from indexing.models.quarantines import QuarantineRequest
from indexing.models.tests import HealthStatus
from indexing.names import RepositoryName
from indexing.store.interface import Reader, Store
from service.config.settings import Settings
from service.metrics import health_gauges, outbox_gauges, store_gauges
from service.metrics.health_gauges import HealthGauges
from service.metrics.measured_store import StoreMetrics
from service.metrics.outbox_gauges import OutboxGauges
from service.metrics.quarantine_gauges import QuarantineGauges
from tests.builders import GADGETS, NOON, WIDGETS, after, make_executions, make_run, make_webhook
from tests.new_stores import open_new_store
from tests.service.conftest import open_door
from tests.service.front_door import Answer, FrontDoor, operations
from tests.service.middleware.scraping import samples

P, F = Conclusion.PASSED, Conclusion.FAILED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_new_store(tmp_path)
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
    await measured.write_results(WIDGETS, {first: make_executions(first, [("c", P)])})
    await measured.write_results(
        GADGETS, {first: make_executions(first, [("c", P)], repository=GADGETS)}
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


async def test_a_cancelled_call_is_timed_and_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "list_repositories", hang)
    registry = CollectorRegistry()
    measured = StoreMetrics(registry, ()).measure(store)
    calling = asyncio.ensure_future(measured.list_repositories())
    await begun.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    call = "list_repositories"
    assert value_of(registry, "store_seconds_count", call=call) == 1
    assert value_of(registry, "store_errors_total", call=call, reason="cancelled") == 1


async def test_a_missing_resource_is_no_failure_of_the_store(store: Store) -> None:
    registry = CollectorRegistry()
    measured = StoreMetrics(registry, ()).measure(store)
    missing = replace(WIDGETS, name="missing")
    run = make_run()
    with pytest.raises(UnknownRepositoryError):
        await measured.write_results(missing, {run: make_executions(run, [("a", P)])})
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


async def test_waiting_notifications_of_all_webhooks_are_counted_with_the_age_of_the_oldest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_gauges, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(store_gauges, "SHARE", 1e9)
    gauges = OutboxGauges(store, lambda: after(minutes=10))

    async def read() -> Mapping[str, float]:
        await gauges.refresh()
        return {
            sample.name: sample.value for family in gauges.collect() for sample in family.samples
        }

    number, age = "mergewatch_outbox_notifications", "mergewatch_outbox_oldest_seconds"
    assert await read() == {number: 0, age: 0}
    for repository, minutes in ((WIDGETS, 4), (GADGETS, 1)):
        await store.add_webhook(make_webhook(repository))
        request = QuarantineRequest("a", "flaps")
        await store.add_quarantine(repository, request, after(minutes=minutes))
    assert await read() == {number: 2, age: 9 * 60}

    async def fail() -> None:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(store, "find_waiting", fail)
    assert await read() == {}


async def test_a_client_that_leaves_begins_no_read_for_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    begun, released = asyncio.Event(), asyncio.Event()
    list_quarantines = store.list_quarantines

    async def wait(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        begun.set()
        await released.wait()
        return await list_quarantines(*arguments)

    monkeypatch.setattr(store, "list_quarantines", wait)
    gauges = QuarantineGauges(store, (WIDGETS,), lambda: NOON)
    leaving = asyncio.create_task(gauges.refresh())
    await begun.wait()
    leaving.cancel()
    await asyncio.wait([leaving])
    released.set()
    await gauges.refresh()
    assert reads == 1
    assert [sample.value for family in gauges.collect() for sample in family.samples] == [0]


async def test_tests_of_named_repositories_are_counted_by_health(counted: FrontDoor) -> None:
    run = make_run()
    results = make_executions(run, [("a", P), ("b", P)])
    await counted.store.write_results(WIDGETS, {run: results})
    answer = await counted.get("/metrics")
    found = samples(answer)
    assert found["mergewatch_tests", "unknown", "acme/widgets"] == 2
    assert found["mergewatch_tests", "broken", "acme/widgets"] == 0
    assert found["mergewatch_stale_tests",] == 2
    assert "gadgets" not in answer.body.decode()


class SlowCounts:
    """Counts that wait until they are released."""

    def __init__(self, stale: int | None = None) -> None:
        self.stale = stale
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self.calls = 0

    async def count_tests(self, _: RepositoryName) -> Mapping[HealthStatus, int]:
        self.calls += 1
        self.begun.set()
        await self.released.wait()
        return {HealthStatus.FLAKY: self.calls}

    async def count_stale_tests(self) -> int:
        if self.stale is None:
            raise StoreUnavailableError("down")
        return self.stale


def counts_of(gauges: HealthGauges) -> list[tuple[str, float]]:
    return [(each.name, each.value) for family in gauges.collect() for each in family.samples]


async def test_a_scrape_does_not_wait_for_a_long_count() -> None:
    slow = SlowCounts()
    gauges = HealthGauges(cast("Reader", slow), (WIDGETS,))
    gauges.wait_seconds = 0.01
    for _ in range(3):
        await gauges.refresh()
    assert (slow.calls, counts_of(gauges)) == (1, [])
    slow.released.set()
    gauges.wait_seconds = 60.0
    await gauges.refresh()
    # Only the repository that cannot be counted is left out.
    assert counts_of(gauges) == [("mergewatch_tests", 1.0)]
    await gauges.refresh()
    assert slow.calls == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as the only item."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return clock


async def count_once(slow: SlowCounts, clock: list[float], seconds: float) -> HealthGauges:
    """Return gauges whose first count has taken so many seconds."""
    gauges = HealthGauges(cast("Reader", slow), (WIDGETS,))
    waiting = asyncio.create_task(gauges.refresh())
    await slow.begun.wait()
    clock[0] = seconds
    slow.released.set()
    await waiting
    return gauges


async def test_counting_takes_a_hundredth_of_the_time_at_most(clock: list[float]) -> None:
    slow = SlowCounts(stale=0)
    gauges = await count_once(slow, clock, 5.0)
    for moment, calls in ((500.0, 1), (506.0, 2)):
        clock[0] = moment
        await gauges.refresh()
        assert slow.calls == calls


async def test_a_count_that_failed_is_repeated_after_a_minute(clock: list[float]) -> None:
    slow = SlowCounts()
    gauges = await count_once(slow, clock, 1.5)
    slow.stale = 7
    for moment, found in ((61.0, []), (62.0, [("mergewatch_stale_tests", 7.0)])):
        clock[0] = moment
        await gauges.refresh()
        assert counts_of(gauges)[1:] == found


async def test_counts_that_fail_slowly_are_not_repeated_each_minute(clock: list[float]) -> None:
    slow = SlowCounts()
    gauges = await count_once(slow, clock, 8.0)
    for moment, calls in ((167.0, 1), (169.0, 2)):
        clock[0] = moment
        await gauges.refresh()
        assert slow.calls == calls


async def test_nothing_else_is_counted_after_a_timeout_until_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_gauges, "COUNT_SECONDS", 0.01)
    monkeypatch.setattr(health_gauges, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(health_gauges, "FAILING_SHARE", 1e9)
    asked: list[RepositoryName] = []

    class Stuck(SlowCounts):
        async def count_tests(self, name: RepositoryName) -> Mapping[HealthStatus, int]:
            asked.append(name)
            if name == WIDGETS:
                await self.released.wait()
            return {HealthStatus.FLAKY: 3}

    gauges = HealthGauges(cast("Reader", Stuck(stale=0)), (WIDGETS, GADGETS))
    await gauges.refresh()
    stale = ("mergewatch_stale_tests", 0.0)
    assert (asked, counts_of(gauges)) == ([WIDGETS], [stale])
    await gauges.refresh()
    assert asked[1:] == [GADGETS, WIDGETS]
    assert counts_of(gauges) == [("mergewatch_tests", 3.0), stale]


async def test_reads_of_the_cache_are_counted_by_where_the_value_was(counted: FrontDoor) -> None:
    def reads(answer: Answer) -> dict[str, float]:
        return {
            name: samples(answer)["mergewatch_cache_reads_total", name]
            for name in ("process", "redis", "store")
        }

    await counted.get(operations()["quarantines"])
    # The reads of the credential, the repository and the body.
    assert reads(await counted.get("/metrics")) == {"process": 0, "redis": 0, "store": 3}
    # A read of another path finds the same credential and repository in the cache.
    await counted.get(operations()["events"])
    assert reads(await counted.get("/metrics")) == {"process": 2, "redis": 0, "store": 4}
    # For the same path, nothing has to be read to know that it may be.
    await counted.get(operations()["quarantines"] + "?per_page=20")
    assert reads(await counted.get("/metrics")) == {"process": 2, "redis": 0, "store": 5}


async def test_exchanges_with_redis_are_timed(tmp_path: Path, redis_url: str) -> None:
    chosen = Settings(data_dir=tmp_path, metrics=True, redis_url=redis_url)
    async for opened in open_door(chosen):
        await opened.get(operations()["quarantines"])
        assert samples(await opened.get("/metrics"))["mergewatch_redis_seconds_count",] > 0
