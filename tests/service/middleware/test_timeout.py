"""The timeout of reads, and the page that it leaves alone."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from indexing.errors import StoreUnavailableError
from service.middleware import timeout
from service.middleware.timeout import limit_time


async def answer_late(_: web.BaseRequest) -> web.Response:
    """Answer after the timeout, which is over with the next iteration of the event loop."""
    for _round in range(10):
        await asyncio.sleep(0)
    return web.Response()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeout, "READ_SECONDS", 0.0)


@pytest.mark.parametrize("target", ["/health/ready", "/metrics?name=a", "/metricsx"])
async def test_a_read_that_takes_too_long_is_cancelled(target: str) -> None:
    with pytest.raises(StoreUnavailableError):
        await limit_time(answer_late)(make_mocked_request("GET", target))


async def test_metrics_wait_for_their_gauges() -> None:
    response = await limit_time(answer_late)(make_mocked_request("GET", "/metrics"))
    assert response.status == 200
