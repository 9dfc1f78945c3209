"""Test results that CI plugins send as OTLP spans, where the operator lets them in."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from indexing.ingest.spans import ingest_results
from indexing.names import RepositoryName
from indexing.otlp.json_mapping import read_json
from indexing.otlp.protobuf import read_protobuf
from indexing.otlp.requests import RequestError, RequestTooLargeError
from indexing.otlp.results import Results, read_results
from service import problems
from service.auth import Operation
from service.context import CONTEXT, admit_to_write
from service.paths import OWNER, REPOSITORY
from service.schemas.responses import TraceAnswer

PATH: Final = (OWNER, REPOSITORY)

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
KINDS: Final = (PROTOBUF, JSON)

_READERS: Final = {PROTOBUF: read_protobuf, JSON: read_json}
_ANSWER: Final = TraceAnswer()


async def send_traces(request: web.Request) -> web.Response:
    """POST /v1/ci/{owner}/repositories/{repository}/traces, and .../repos/.../ci/traces."""
    context = request.app[CONTEXT]
    repository = await admit_to_write(request, Operation.SEND_TRACES, PATH)
    async with context.intake.receive(request, KINDS) as body:
        results = await body.read(partial(_read_traces, repository, body.kind, context.clock()))
        await ingest_results(context.writer, repository, results.runs, clock=context.clock)
    return _answer_traces(results, body.kind)


def _read_traces(repository: RepositoryName, kind: str, now: datetime, content: bytes) -> Results:
    try:
        return read_results(repository, _READERS[kind](content), now=now)
    except RequestTooLargeError as error:
        raise problems.too_large(str(error)) from error
    except RequestError as error:
        raise problems.malformed(str(error)) from error


def _answer_traces(results: Results, kind: str) -> web.Response:
    """Answer in the request's own encoding; OTLP leaves out what there is nothing to say of."""
    rejected: dict[str, Any] = {}
    if results.rejected:
        rejected = {"rejected_spans": results.rejected, "error_message": results.complaint}
    if kind == PROTOBUF:
        partial = ExportTracePartialSuccess(**rejected) if rejected else None
        message = ExportTraceServiceResponse(partial_success=partial)
        return web.Response(body=message.SerializeToString(), content_type=PROTOBUF)
    answer = _ANSWER.dump({"partial_success": rejected} if rejected else {})
    return web.Response(body=orjson.dumps(answer), content_type=JSON)
