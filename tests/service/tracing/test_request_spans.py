"""The span of a request: what it says, what it leaves out, and whose trace it continues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from yarl import URL

from indexing.errors import StoreUnavailableError
from indexing.models.quarantines import QuarantineRequest
from indexing.store.sqlite.store import SqliteStore
from service.config.settings import LogFormat, LogLevel, Settings
from service.handlers import row_stream
from service.logs import configure_logging
from service.middleware import errors
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.response_cache import REPEATED_REQUESTS, RepeatedRequests
from service.middleware.wrapped_store import CALLS
from service.streaming import hub
from service.tracing.log_lines import FewLines, add_span
from service.tracing.request_spans import MAX_PATH_LENGTH, describe
from service.tracing.store_spans import COLLECTIONS
from tests.builders import NOON, WIDGETS, after, make_event
from tests.service.conftest import open_door
from tests.service.front_door import (
    A_TEST_ID,
    LOGS,
    QUARANTINES,
    SEARCH,
    TESTS,
    FrontDoor,
    operations,
)
from tests.service.tracing.conftest import Spans, open_traced, open_tracing
from tests.spans import PROTOBUF, make_request, make_span, write

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


def is_request(span: ReadableSpan) -> bool:
    return span.kind is SpanKind.SERVER


def is_root(span: ReadableSpan) -> bool:
    return span.parent is None


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


async def send(door: FrontDoor, head: bytes) -> None:
    """Send the bytes on a connection of its own, and read to the end of the answer."""
    url = URL(door.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head)
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_a_request_says_what_was_asked_and_answered(traced: FrontDoor, spans: Spans) -> None:
    answer = await traced.get(f"{SEARCH}?test_name=*")
    span, _ = spans.take_request()
    route = "/v1/ci/{owner}/repositories/{repository_name}/search/tests"
    assert span.name == f"GET {route}"
    assert attributes_of(span) == {
        "http.request.method": "GET",
        "http.route": route,
        "http.response.status_code": 200,
        "http.response.header.x-request-id": (answer.headers["X-Request-Id"],),
        "network.protocol.version": "1.1",
        "url.path": SEARCH,
        "url.scheme": "http",
    }
    assert is_root(span)
    assert span.status.status_code is StatusCode.UNSET


async def test_calls_of_the_store_are_parts_of_their_request(
    traced: FrontDoor, spans: Spans
) -> None:
    await traced.get(f"{SEARCH}?test_name=*")
    request, parts = spans.take_request()
    # The key and the repository are asked for at once.
    assert [part.name for part in parts[-1:]] == ["search_tests identities"]
    assert {part.name for part in parts} >= {"find_key keys", "find_repository repositories"}
    assert attributes_of(parts[-1]) == {
        "db.system.name": "sqlite",
        "db.operation.name": "search_tests",
        "db.collection.name": "identities",
    }
    for part in parts:
        assert part.parent is not None
        assert part.parent.span_id == request.context.span_id
        assert part.context.trace_id == request.context.trace_id


async def test_what_the_response_cache_answers_is_traced(traced: FrontDoor, spans: Spans) -> None:
    await traced.get(QUARANTINES)
    first, parts = spans.take_request()
    assert parts
    # The third one is remembered, and the fourth answered before it is parsed.
    for _ in range(4):
        answer = await traced.get(QUARANTINES)
        span, parts = spans.take_request()
        assert parts == []
        assert span.name == first.name
        assert span.end_time is not None
        assert span.start_time is not None
        assert span.end_time > span.start_time
        assert attributes_of(span) == {
            **attributes_of(first),
            "mergewatch.response_cache.hit": True,
            "http.response.header.x-request-id": (answer.headers["X-Request-Id"],),
        }


async def test_a_repeated_request_continues_the_trace_that_it_names(
    traced: FrontDoor, spans: Spans
) -> None:
    tag = (await traced.get(QUARANTINES)).headers["ETag"]
    for _ in range(4):
        spans.take()
        named = {"traceparent": TRACEPARENT, "If-None-Match": tag}
        assert (await traced.get(QUARANTINES, **named)).status == 304
        span, _ = spans.take_request()
        assert ids_of(span)[0] == TRACE_ID
        assert attributes_of(span)["http.response.status_code"] == 304


@pytest.mark.parametrize(
    ("key", "status"), [("bad", 403), (None, 404)], ids=["no key", "no such test"]
)
async def test_a_refusal_is_no_failure(
    traced: FrontDoor, spans: Spans, key: str | None, status: int
) -> None:
    await traced.get(f"{TESTS}/{A_TEST_ID}", key=key)
    span, _ = spans.take_request()
    assert attributes_of(span)["http.response.status_code"] == status
    assert "error.type" not in attributes_of(span)
    assert span.status.status_code is StatusCode.UNSET


async def test_what_no_route_takes_is_named_by_its_method(traced: FrontDoor, spans: Spans) -> None:
    await traced.get("/nowhere")
    span, _ = spans.take_request()
    assert span.name == "GET"
    assert "http.route" not in attributes_of(span)
    await traced.get("/nowhere", method="PROPFIND")
    span, _ = spans.take_request()
    assert (span.name, attributes_of(span)["http.request.method"]) == ("HTTP", "_OTHER")


async def test_pages_for_monitoring_are_not_traced(traced: FrontDoor, spans: Spans) -> None:
    for page in ("/health/live", "/health/ready", "/metrics"):
        await traced.get(page)
    assert spans.take() == []


async def test_a_failure_of_the_store_is_one_of_the_request(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the disk of mona is full")

    monkeypatch.setattr(SqliteStore, "search_tests", fail)
    async with open_traced(Settings(data_dir=tmp_path), open_tracing(spans)) as traced:
        assert (await traced.get(f"{SEARCH}?test_name=*")).status == 503
    request, parts = spans.take_request()
    assert attributes_of(parts[-1])["error.type"] == "StoreUnavailableError"
    assert attributes_of(request)["error.type"] == "503"
    for span in (request, parts[-1]):
        assert span.status.status_code is StatusCode.ERROR
        # The text of an error may be of anybody.
        assert span.status.description is None
        assert span.events == ()


async def test_an_error_in_a_layer_is_a_failure(
    traced: FrontDoor, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("mona")

    monkeypatch.setattr(traced.app[ADMISSION_CONTROL].queue, "release", break_down)
    assert (await traced.get(QUARANTINES)).status == 500
    span, _ = spans.take_request()
    assert attributes_of(span)["error.type"] == "500"


async def test_a_request_whose_client_goes_away_ends(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def wait(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SqliteStore, "search_tests", wait)
    async with open_traced(Settings(data_dir=tmp_path), open_tracing(spans)) as traced:
        request = asyncio.create_task(traced.get(f"{SEARCH}?test_name=*"))
        await asked.wait()
        request.cancel()
        await until(lambda: any(map(is_request, spans.exporter.get_finished_spans())))
    found = spans.take()
    failed = [span for span in found if "error.type" in attributes_of(span)]
    assert {span.name.split()[0] for span in failed} == {"GET", "search_tests"}
    for span in failed:
        assert attributes_of(span)["error.type"] == "CancelledError"
        assert span.status.status_code is StatusCode.UNSET


async def test_a_stream_of_rows_belongs_to_its_request(
    traced: FrontDoor, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_stream, "ROWS_AT_ONCE", 2)
    await traced.store.write_events([make_event(n, after(hours=-n - 1)) for n in range(5)])
    answer = await traced.get(LOGS, Accept="application/x-ndjson")
    assert answer.body.count(b"\n") == 5
    await until(lambda: any(map(is_request, spans.exporter.get_finished_spans())))
    request, parts = spans.take_request()
    assert [part.name for part in parts].count("list_events events") == 3
    assert {part.context.trace_id for part in parts} == {request.context.trace_id}


async def test_the_span_of_an_endless_stream_ends_when_it_begins(
    traced: FrontDoor, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    headers = {"Authorization": f"Bearer {traced.key}"}
    async with traced.client.get(f"{traced.base}{LOGS}/stream", headers=headers) as answer:
        await answer.content.readuntil(b"\n\n")
        request, _ = spans.take_request()
        assert request.name == "GET /v1/repos/{owner}/{repository}/logs/stream"
        # The polls that this stream causes are parts of no request.
        await traced.store.write_events([make_event(1)])
        await answer.content.readuntil(b"\n\n")
    assert spans.take() == []


async def test_an_upload_is_traced_with_its_writes(traced: FrontDoor, spans: Spans) -> None:
    body = write(make_request([make_span("a"), make_span("b", "failed")]), PROTOBUF)
    path = "/v1/ci/acme/repositories/widgets/traces"
    assert (await traced.post(path, body, PROTOBUF)).status == 200
    request, parts = spans.take_request()
    assert request.name == "POST /v1/ci/{owner}/repositories/{repository}/traces"
    assert {"write_results executions", "refresh_tests tests"} <= {part.name for part in parts}


async def test_an_upload_is_traced_to_its_end_though_its_client_goes_away(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, released = asyncio.Event(), asyncio.Event()
    refresh = SqliteStore.refresh_tests

    async def wait(*args: Any, **rest: Any) -> int:
        asked.set()
        await released.wait()
        return await refresh(*args, **rest)

    monkeypatch.setattr(SqliteStore, "refresh_tests", wait)
    settings = Settings(data_dir=tmp_path, ingest=True)
    async with open_traced(settings, open_tracing(spans)) as traced:
        body = write(make_request([make_span("a")]), PROTOBUF)
        upload = asyncio.create_task(
            traced.post("/v1/ci/acme/repositories/widgets/traces", body, PROTOBUF)
        )
        await asked.wait()
        upload.cancel()
        await until(lambda: any(map(is_request, spans.exporter.get_finished_spans())))
        released.set()
        await until(lambda: spans.exporter.get_finished_spans()[-1].name == "refresh_tests tests")
    request, last = [span for span in spans.take() if is_request(span) or "refresh" in span.name]
    assert attributes_of(request)["error.type"] == "CancelledError"
    assert last.parent is not None
    assert last.parent.span_id == request.context.span_id
    assert "error.type" not in attributes_of(last)


async def test_the_trace_of_the_client_goes_on(traced: FrontDoor, spans: Spans) -> None:
    await traced.get(
        QUARANTINES, traceparent=TRACEPARENT, tracestate="mona=1,b=2", baggage="user=mona"
    )
    request, parts = spans.take_request()
    assert request.parent is not None
    assert request.parent.is_remote
    assert format_span_id(request.parent.span_id) == PARENT_ID
    assert {ids_of(span)[0] for span in (request, *parts)} == {TRACE_ID}
    assert request.context.trace_state.to_header() == "mona=1,b=2"


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", "")],
        [("traceparent", "mona")],
        [("traceparent", TRACEPARENT.upper())],
        [("traceparent", TRACEPARENT.replace("00-", "ff-", 1))],
        [("traceparent", f"{TRACEPARENT}-{'0' * 6_000}")],
        [("traceparent", f"01{TRACEPARENT[2:]}-{'0' * 6_000}")],
        [("traceparent", f"00-{'0' * 32}-{PARENT_ID}-01")],
        [("traceparent", f"00-{TRACE_ID}-{'0' * 16}-01")],
        [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
    ],
    ids=[
        "empty",
        "a word",
        "capitals",
        "no version",
        "too long",
        "too long, of a later version",
        "no trace",
        "no parent",
        "two",
    ],
)
async def test_a_malformed_parent_is_ignored_without_a_word(
    traced: FrontDoor,
    spans: Spans,
    headers: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = ("Authorization", f"Bearer {traced.key}")
    assert (await traced.ask(QUARANTINES, CIMultiDict([key, *headers]))).status == 200
    request, _ = spans.take_request()
    assert is_root(request)
    assert caplog.records == []


async def test_a_huge_state_is_dropped_and_the_parent_taken(
    traced: FrontDoor, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    state = CIMultiDict([("tracestate", f"a{n}={'x' * 200}") for n in range(30)])
    state.extend({"Authorization": f"Bearer {traced.key}", "traceparent": TRACEPARENT})
    await traced.ask(QUARANTINES, state)
    request, _ = spans.take_request()
    assert ids_of(request)[0] == TRACE_ID
    assert not request.context.trace_state
    assert caplog.records == []


async def test_an_operator_may_take_no_parents(tmp_path: Path, spans: Spans) -> None:
    tracing = open_tracing(spans, takes_parents=False)
    async with open_traced(Settings(data_dir=tmp_path), tracing) as traced:
        await traced.get(QUARANTINES, traceparent=TRACEPARENT)
    request, _ = spans.take_request()
    assert is_root(request)


async def test_what_is_not_sampled_has_no_parts(tmp_path: Path, spans: Spans) -> None:
    tracing = open_tracing(spans, root_ratio=0)
    async with open_traced(Settings(data_dir=tmp_path), tracing) as traced:
        for _ in range(5):
            assert (await traced.get(QUARANTINES)).status == 200
        assert spans.take() == []
        # The client has chosen this one.
        await traced.get(SEARCH + "?test_name=*", traceparent=TRACEPARENT)
        request, parts = spans.take_request()
        assert parts
        await traced.get(SEARCH + "?test_name=?", traceparent=f"{TRACEPARENT[:-1]}0")
        assert spans.take() == []
    assert ids_of(request)[0] == TRACE_ID


async def test_no_span_holds_what_is_private(traced: FrontDoor, spans: Spans) -> None:
    secrets = ["test_of_mona", "mona@example.org", "Bearer", "S3cr3t", traced.key, "10.1.2.3"]
    sent = {
        "User-Agent": "mona@example.org",
        "X-Forwarded-For": "10.1.2.3",
        "Cookie": "a=S3cr3t",
        "baggage": "a=S3cr3t",
    }
    for target in operations().values():
        await traced.get(target, **sent)
    await traced.get(f"{SEARCH}?test_name=test_of_mona", **sent)
    await traced.get(f"/v1/{traced.key}/mw%5fS3cr3t", **sent)
    await traced.get("/ui/sign-in?link=S3cr3t", **sent)
    await traced.store.add_quarantine(WIDGETS, QuarantineRequest("test_of_mona", "flaps"), NOON)
    quarantine = {"test_name": "test_of_mona", "reason": "mona@example.org"}
    posted = await traced.post(QUARANTINES, orjson.dumps(quarantine), "application/json", **sent)
    assert posted.status in (200, 201)
    exported = encode_spans(spans.take()).SerializeToString()
    assert [text for text in secrets if text.encode() in exported] == []


async def test_no_path_stops_the_export(traced: FrontDoor, spans: Spans) -> None:
    key = f"Host: a\r\nAuthorization: Bearer {traced.key}\r\nConnection: close\r\n\r\n".encode()
    paths = (b"/%ff%00", b"/" + b"a" * 7_000, b"//[")
    for path in (*paths, b"/\xff\xfe", "/é".encode(), b"*"):
        # The parser refuses the last three before any layer sees them.
        await send(traced, b"GET " + path + b" HTTP/1.1\r\n" + key)
    found = spans.take()
    assert len(found) == len(paths)
    assert max(len(attributes_of(span)["url.path"]) for span in found) == MAX_PATH_LENGTH
    encode_spans(found).SerializeToString()


def test_bytes_that_are_no_text_are_replaced() -> None:
    # aiohttp's parser in Python takes them, as surrogates.
    _, attributes = describe(make_mocked_request("GET", "/\udcff"))
    assert attributes["url.path"] == "/?"


async def test_log_lines_name_their_span(
    tmp_path: Path,
    spans: Spans,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("full")

    monkeypatch.setattr(SqliteStore, "search_tests", fail)
    configure_logging(LogLevel.WARNING, LogFormat.JSON, [add_span], [FewLines()])
    # A logger keeps the configuration of its first line.
    monkeypatch.setattr(errors, "_log", structlog.get_logger())
    async with open_traced(Settings(data_dir=tmp_path), open_tracing(spans)) as traced:
        answer = await traced.get(f"{SEARCH}?test_name=*")
    line = orjson.loads(capsys.readouterr().err)
    request, _ = spans.take_request()
    assert (line["trace_id"], line["span_id"]) == ids_of(request)
    assert line["request_id"] == answer.headers["X-Request-Id"]


def test_the_sdk_writes_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogLevel.WARNING, LogFormat.JSON, [add_span], [FewLines()])
    for _ in range(100):
        logging.getLogger("opentelemetry.trace.span").warning("malformed")
        logging.getLogger("opentelemetry.exporter").error("unreachable")
    logging.getLogger("service").warning("one")
    logging.getLogger("service").warning("two")
    lines = [orjson.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["malformed", "unreachable", "one", "two"]
    assert "trace_id" not in lines[0]


async def test_calls_to_redis_are_parts_of_their_request(
    tmp_path: Path, redis_url: str, spans: Spans
) -> None:
    settings = Settings(data_dir=tmp_path, redis_url=redis_url)
    async with open_traced(settings, open_tracing(spans)) as traced:
        await traced.get(QUARANTINES)
        request, parts = spans.take_request()
        calls = [part for part in parts if attributes_of(part)["db.system.name"] == "redis"]
        assert attributes_of(calls[0]) == {"db.system.name": "redis", "db.operation.name": "MGET"}
        assert {ids_of(part)[0] for part in parts} == {ids_of(request)[0]}
        await traced.get(QUARANTINES)
        request, parts = spans.take_request()
        # The response cache asks whether its response is valid, and nothing else.
        assert [part.name for part in parts] == ["MGET"]
        assert attributes_of(request)["mergewatch.response_cache.hit"]


async def test_without_traces_nothing_is_wrapped(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path)):
        assert type(door.reader) is SqliteStore
        assert type(door.app[REPEATED_REQUESTS]) is RepeatedRequests


def test_every_collection_is_of_calls_that_there_are() -> None:
    named = [call for calls in COLLECTIONS.values() for call in calls]
    assert sorted(named) == sorted({*named} & {*CALLS})
