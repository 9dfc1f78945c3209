"""A real HTTP server that receives uploads, with good, bad and foreign responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from service.server.listener import http_url
from service.server.process import bind

TOKEN = "mw_hush"
Answerer = Callable[[web.Request], web.StreamResponse]


@dataclass
class Receiver:
    """A server at `url`; it gives its responses in order, then repeats the last one."""

    url: str = ""
    answers: list[Answerer] = field(default_factory=list)
    requests: list[tuple[str, str, ExportTraceServiceRequest]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Content-Type"] == "application/x-protobuf"
        assert request.headers["Content-Encoding"] == "gzip"
        # aiohttp has already decompressed the body as the header says.
        body = ExportTraceServiceRequest.FromString(await request.read())
        self.requests.append((request.path, request.headers["Authorization"], body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request)


def accept(_: web.Request) -> web.Response:
    return respond(ExportTraceServiceResponse())


def reject_one(_: web.Request) -> web.Response:
    told = ExportTracePartialSuccess(rejected_spans=1, error_message=f"no name; {TOKEN}")
    return respond(ExportTraceServiceResponse(partial_success=told))


def respond(message: ExportTraceServiceResponse) -> web.Response:
    return web.Response(body=message.SerializeToString(), content_type="application/x-protobuf")


def disconnect(request: web.Request) -> web.Response:
    """Close the connection without a response, as a restarting service does."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def answer(status: int, text: str = "", **headers: str) -> Answerer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = named.pop("Content-Type", "text/plain")
    return lambda _: web.Response(status=status, text=text, headers=named, content_type=kind)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver(answers=[accept])
    app = web.Application()
    app.router.add_post("/{anything:.*}", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    with bind("127.0.0.1", 0) as listener:
        await web.SockSite(runner, listener).start()
        receiver.url = http_url(listener)
        yield receiver
        await runner.cleanup()
