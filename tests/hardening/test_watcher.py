"""The watcher records every wait and every failure, and the phase it was in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest
from aiohttp import web

from hardening.watcher import LONGEST_WAIT, Watcher, watch

FREEZE = 3 * LONGEST_WAIT
PROMETHEUS = """\
# HELP mergewatch_event_loop_lag_seconds How late the loop is.
mergewatch_event_loop_lag_seconds_bucket{le="0.05"} %d.0
mergewatch_event_loop_lag_seconds_bucket{le="+Inf"} %d.0
mergewatch_event_loop_lag_seconds_count %d.0
mergewatch_event_loop_lag_max_seconds %s
"""


@dataclass
class Service:
    """Responds as it is configured to."""

    port: int = 0
    status: int = HTTPStatus.OK
    body: bytes = b"right"
    metrics: str | None = None

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(status=self.status, body=self.body)

    async def tell(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.metrics else 404, text=self.metrics)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    app = web.Application()
    app.router.add_get("/test", service.answer)
    app.router.add_get("/metrics", service.tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.port = runner.addresses[0][1]
    yield service
    await runner.cleanup()


async def test_a_blocked_loop_is_reported_in_its_phase(service: Service) -> None:
    async with (
        watch(service.port, "/test", "key", baseline=0) as watcher,
        watcher.during("freeze"),
    ):
        await asyncio.sleep(LONGEST_WAIT)
        time.sleep(FREEZE)  # noqa: ASYNC251 - the loop is to be held up
    assert watcher.waits("freeze").longest > FREEZE - LONGEST_WAIT
    finding = watcher.report("an attack")
    assert not finding.holds
    assert "longest during freeze" in finding.figure
    assert "without attack" in finding.figure


@pytest.mark.parametrize(
    ("status", "body"), [(HTTPStatus.SERVICE_UNAVAILABLE, b"right"), (HTTPStatus.OK, b"wrong")]
)
async def test_another_answer_is_a_failure(service: Service, status: int, body: bytes) -> None:
    async with (
        watch(service.port, "/test", "key", baseline=0) as watcher,
        watcher.during("other"),
    ):
        service.status, service.body = status, body
        await asyncio.sleep(LONGEST_WAIT)
    assert watcher.waits("baseline").failed == 0
    assert watcher.waits("other").failed > 0
    finding = watcher.report("an attack")
    assert not finding.holds
    assert "other: " in finding.cause


async def test_an_attack_without_samples_does_not_hold(service: Service) -> None:
    async with watch(service.port, "/test", "key", baseline=0) as watcher:
        pass
    assert not watcher.report("nothing").holds


async def test_the_lag_is_that_since_the_attack_began(service: Service) -> None:
    service.metrics = PROMETHEUS % (10, 12, 12, "2.5")
    async with watch(service.port, "/test", "key", baseline=0) as watcher:
        service.metrics = PROMETHEUS % (14, 17, 17, "0.075")
    assert watcher.describe_lag() == "longest 75.0 ms, 1 of 5 above 50.0 ms"


async def test_a_missing_metric_is_reported(service: Service) -> None:
    async with watch(service.port, "/test", "key", baseline=0) as watcher:
        pass
    assert watcher.describe_lag() == "no metric"


@pytest.mark.parametrize(
    ("seconds", "is_right", "lag", "holds"),
    [
        (0.099, True, {"mergewatch_event_loop_lag_max_seconds": 0.01}, True),
        (0.100, True, {"mergewatch_event_loop_lag_max_seconds": 0.01}, False),
        (0.099, False, {"mergewatch_event_loop_lag_max_seconds": 0.01}, False),
        (0.099, True, {}, False),
    ],
)
def test_every_wait_of_an_attack_is_short_and_right(
    seconds: float, is_right: bool, lag: dict[str, float], holds: bool
) -> None:
    watcher = Watcher(
        samples=[(0.0, 5.0, False), (10.0, 0.001, True), (19.95, seconds, is_right)],
        lag_after=lag,
        phases=[("baseline", 0.0, 5.0), ("attack", 10.0, 20.0)],
    )
    # Slow or wrong responses before the attack are reported beside it, and not judged.
    assert watcher.report("an attack").holds is holds
