"""The Prometheus metrics of a process, if the operator enables them."""

from __future__ import annotations

import asyncio
import errno
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.cache import redis
from service.cache.redis import RedisBackend
from service.cache.redis_connection import RedisConnection
from service.cache.session import CacheReads
from service.cache.signing import CacheSigner
from service.config.settings import Settings
from service.metrics import copied_metrics
from service.metrics.loop_lag import INTERVAL_SECONDS
from service.middleware.metrics import Metrics
from service.routes import name_operation
from tests.builders import WIDGETS
from tests.service.conftest import open_door
from tests.service.front_door import (
    A_TEST_ID,
    LOGS,
    QUARANTINES,
    ROOT,
    FrontDoor,
    operations,
)
from tests.service.middleware.scraping import samples
from tests.waiting import until

NAMES = tuple(operations())


@pytest.fixture
async def counted(tmp_path: Path) -> AsyncIterator[FrontDoor]:
    async for opened in open_door(Settings(data_dir=tmp_path, metrics=True)):
        yield opened


class OnceFull(Collector):
    """A collector whose second copy finds no room on the disk."""

    def __init__(self) -> None:
        self.copies = 0

    def collect(self) -> Iterator[Metric]:
        self.copies += 1
        if self.copies == 2:
            raise OSError(errno.ENOSPC, "no room")
        yield from ()


async def test_metrics_are_copied_again_after_a_failed_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copied_metrics, "COPY_SECONDS", 0.001)
    collector = OnceFull()
    copies = copied_metrics.CopiedMetrics([collector])
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: unhandled.append(about))
    copies.start()
    await until(lambda: collector.copies > 2)
    copies.stop()
    assert [each["exception"].args[0] for each in unhandled] == [errno.ENOSPC]


async def test_a_client_that_scrapes_all_the_time_gets_the_last_page_again(
    counted: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def count() -> float:
        await counted.get(LOGS)
        found = samples(await counted.ask("/metrics", {}))
        return found["mergewatch_requests_total", "events", "200"]

    assert [await count(), await count()] == [1, 2]
    with monkeypatch.context() as spent:
        spent.setattr("service.middleware.metrics.WRITING_SECONDS", 0.0)
        spent.setattr("service.middleware.metrics.WRITING_SHARE", 0.0)
        assert [await count(), await count()] == [2, 2]
    assert await count() == 5


@pytest.mark.parametrize("stack", ["sqlite"], indirect=True)
async def test_metrics_are_off_by_default(door: FrontDoor) -> None:
    assert (await door.get("/metrics")).status == 404


async def test_requests_are_counted_by_operation_and_status(counted: FrontDoor) -> None:
    for target in operations().values():
        await counted.get(target)
    await counted.get(LOGS, key="bad")
    await counted.get("/secret/path")
    answer = await counted.ask("/metrics", {})
    assert answer.headers["Content-Type"].startswith("text/plain")
    found = samples(answer)
    assert found["mergewatch_requests_total", "events", "200"] == 1
    assert found["mergewatch_requests_total", "events", "403"] == 1
    assert found["mergewatch_requests_total", "test", "404"] == 1
    assert found["mergewatch_requests_total", "other", "404"] == 1
    assert found["mergewatch_request_seconds_count", "events"] == 2
    assert found["mergewatch_waiting_requests",] == 0
    for secret in ("acme", "widgets", "secret", counted.key):
        assert secret not in answer.body.decode()


async def test_the_metrics_that_are_served_are_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No Redis is there to wait for.
    monkeypatch.setattr(redis, "INVALIDATE_SECONDS", 0.0)
    settings = Settings(
        data_dir=tmp_path,
        metrics=True,
        metrics_repositories=(WIDGETS,),
        redis_url="redis://127.0.0.1:1",
    )
    async for door in open_door(settings):
        answer = await door.get("/metrics")
        served = re.findall(r"^# TYPE (\w+) (\w+)$", answer.body.decode(), re.MULTILINE)
        text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
        documented = re.findall(r"^\| `(mergewatch_\w+)` \| (\w+) \|", text, re.MULTILINE)
        assert sorted(documented) == sorted(
            (name, kind) for name, kind in served if not name.endswith("_created")
        )


@dataclass
class Counts:
    """What metrics count in the response cache and in admission control."""

    hits: int = 0
    refused: int = 0
    waiting: int = 0


async def test_every_gauge_that_workers_copy_says_how_theirs_are_combined(tmp_path: Path) -> None:
    connection = RedisConnection("redis://127.0.0.1:1", b"probe")
    backend = RedisBackend(connection, CacheSigner(b"k" * 32), "store")
    metrics = Metrics(Counts(), Counts(), backend, CacheReads(), tmp_path)
    metrics.start()
    await metrics.stop()


async def test_a_page_whose_client_leaves_counts_for_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = RedisConnection("redis://127.0.0.1:1", b"probe")
    backend = RedisBackend(connection, CacheSigner(b"k" * 32), "store")
    metrics = Metrics(Counts(), Counts(), backend, CacheReads(), tmp_path)
    begun, may_end, pages = threading.Event(), threading.Event(), []

    def write(*_: object) -> bytes:
        begun.set()
        may_end.wait()
        pages.append(b"page")
        return pages[-1]

    monkeypatch.setattr("service.middleware.metrics._render_all", write)
    monkeypatch.setattr("service.middleware.metrics.WRITING_SECONDS", 0.0)
    leaving = asyncio.create_task(metrics.render())
    await asyncio.to_thread(begun.wait)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    may_end.set()
    assert await metrics.render() == b"page"
    assert len(pages) == 1


async def test_hits_of_the_response_cache_are_counted(counted: FrontDoor) -> None:
    # The first one reads the store; the second one shows that the response is worth keeping.
    for _ in range(4):
        await counted.get(operations()["quarantines"])
    found = samples(await counted.get("/metrics"))
    assert found["mergewatch_response_cache_hits_total",] == 2
    assert found["mergewatch_requests_total", "quarantines", "200"] == 4


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_is_known_by_its_path(name: str) -> None:
    assert name_operation("GET", operations()[name]) == name
    assert name_operation("HEAD", operations()[name] + "?a=/b") == name
    assert name_operation("PUT", operations()[name]) == "other"


def test_changes_have_operation_names_of_their_own() -> None:
    assert name_operation("POST", QUARANTINES) == "add-quarantine"
    assert name_operation("DELETE", f"{QUARANTINES}/{A_TEST_ID}") == "remove-quarantine"
    assert name_operation("GET", f"{QUARANTINES}/changes") == "quarantine-changes"
    assert name_operation("DELETE", LOGS) == "other"


def test_uploads_have_operation_names_of_their_own() -> None:
    assert name_operation("POST", LOGS) == "send-events"
    for path in ("/v1/repos/a/b/ci/traces", "/v1/ci/a/repositories/b/traces"):
        assert name_operation("POST", path) == "send-traces"
        assert name_operation("GET", path) == "other"


async def test_what_holds_up_the_event_loop_shows_as_its_lag(counted: FrontDoor) -> None:
    name = "mergewatch_event_loop_lag_max_seconds"
    held, spare = 0.2, 5 * INTERVAL_SECONDS
    await counted.ask("/metrics", {})
    await asyncio.sleep(2 * INTERVAL_SECONDS)
    # The service shares the event loop of this test.
    time.sleep(held)  # noqa: ASYNC251
    await asyncio.sleep(2 * INTERVAL_SECONDS)
    found = samples(await counted.ask("/metrics", {}))
    assert found[name,] > held - spare
    assert found["mergewatch_event_loop_lag_seconds_count",] > 0
    assert (
        found["mergewatch_event_loop_lag_seconds_bucket", "0.1"]
        < (found["mergewatch_event_loop_lag_seconds_count",])
    )
