"""A traced service as a process, over a real collector and over one that does not answer."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import orjson
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from service.server.process import bind
from tests.service.processes import Start
from tests.service.receiver import receiving

pytestmark = pytest.mark.slow

REQUESTS = 20


async def ask(address: str) -> None:
    """Send each request on a new connection, so that any worker may answer."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        for _ in range(REQUESTS):
            async with client.get(f"{address}/openapi.json") as answer:
                assert answer.status == 200


async def test_each_worker_exports_all_of_its_spans_before_it_ends(start: Start) -> None:
    async with receiving() as collector:
        service = start(
            MERGEWATCH_WORKERS="2",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20a",
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_SERVICE_NAME="ours",
            # Spans are exported only at the end.
            OTEL_BSP_SCHEDULE_DELAY="3600000",
        )
        listening = await asyncio.to_thread(service.next_line, "listening")
        await ask(listening["address"])
        assert collector.requests == []
        assert await asyncio.to_thread(service.stop) == 0
    spans = []
    for path, authorization, body in collector.requests:
        assert (path, authorization) == ("/v1/traces", "Bearer a")
        (process,) = body.resource_spans
        about = {each.key: each.value.string_value for each in process.resource.attributes}
        assert about["service.name"] == "ours"
        assert about["service.instance.id"]
        spans += [span for scope in process.scope_spans for span in scope.spans]
    assert [(span.name, span.kind) for span in spans] == [
        ("GET /openapi.json", Span.SPAN_KIND_SERVER)
    ] * REQUESTS


@pytest.mark.parametrize("refuses", [True, False], ids=["refused", "silent"])
async def test_a_collector_that_is_away_delays_nothing_and_fills_no_log(
    start: Start, *, refuses: bool
) -> None:
    with bind("127.0.0.1", 0) as silent, socket.socket() as refused:
        # Bound and not listening: a connection to it is refused.
        refused.bind(("127.0.0.1", 0))
        port = (refused if refuses else silent).getsockname()[1]
        service = start(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            # An attempt alone may take an hour.
            OTEL_EXPORTER_OTLP_TIMEOUT="3600",
            OTEL_BSP_SCHEDULE_DELAY="1",
            OTEL_BSP_MAX_QUEUE_SIZE="4",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="2",
        )
        listening = await asyncio.to_thread(service.next_line, "listening")
        # A request that waited for an attempt would not be answered in time.
        await asyncio.wait_for(ask(listening["address"]), 60)
        service.process.terminate()
        _, log = await asyncio.to_thread(service.process.communicate, timeout=60)
    assert service.process.returncode == 0
    lines = [orjson.loads(line) for line in log.splitlines()]
    of_sdk = [line for line in lines if line.get("logger", "").startswith("opentelemetry")]
    # One line for each logger of the SDK, not for each span.
    assert len(of_sdk) <= 3
    assert len(lines) <= 6
