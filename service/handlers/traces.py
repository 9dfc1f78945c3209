"""Test results that CI plugins send as OTLP spans, if the operator turns this on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from indexing.ingest.bodies import Rejections, read_spans
from indexing.ingest.spans import ingest_results
from indexing.models.executions import Execution, Run
from indexing.otlp.requests import JSON, PROTOBUF
from service.context import CONTEXT, REPOSITORY
from service.ingest.body_workers.wire import BodyReader
from service.ingest.limiter import LIMITER
from service.routes import SEND_TRACES
from service.schemas.responses import TraceAnswer

_ANSWER: Final = TraceAnswer()


async def send_traces(request: web.Request) -> web.Response:
    """POST /v1/ci/{owner}/repositories/{repository}/traces, and .../repos/.../ci/traces."""
    context = request.app[CONTEXT]
    repository = request[REPOSITORY]
    async with request.app[LIMITER].receive(request, SEND_TRACES.media_types) as body:
        rejections = Rejections(0, "")
        reader: BodyReader[tuple[Run, Execution] | Rejections] = partial(
            read_spans, repository, body.media_type, context.clock()
        )

        async def executions() -> AsyncGenerator[tuple[Run, Execution], None]:
            nonlocal rejections
            async with aclosing(body.read(reader)) as found:
                async for item in found:
                    if isinstance(item, Rejections):
                        rejections = item
                    else:
                        yield item

        async with aclosing(executions()) as items:
            await ingest_results(context.writer, repository, items, clock=context.clock)
    return _answer_traces(rejections, body.media_type)


def _answer_traces(rejections: Rejections, media_type: str) -> web.Response:
    """Return the response in the encoding of the request; OTLP leaves out empty fields."""
    rejected: dict[str, Any] = {}
    if rejections.count:
        rejected = {"rejected_spans": rejections.count, "error_message": rejections.error_message}
    if media_type == PROTOBUF:
        partial_success = ExportTracePartialSuccess(**rejected) if rejected else None
        message = ExportTraceServiceResponse(partial_success=partial_success)
        return web.Response(body=message.SerializeToString(), content_type=PROTOBUF)
    answer = _ANSWER.dump({"partial_success": rejected} if rejected else {})
    return web.Response(body=orjson.dumps(answer), content_type=JSON)
