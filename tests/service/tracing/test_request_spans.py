"""The span of a request and its child spans: their attributes, and when they end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from indexing.errors import StoreUnavailableError
from indexing.store import ElasticsearchPlace
from indexing.store.sqlite.store import SqliteStore
from service.config.settings import Settings
from service.handlers import row_stream
from service.metrics.wrapped_store import CALLS
from service.middleware.admission_control import ADMISSION_CONTROL
from service.middleware.unparsed_requests import REPEATED_REQUESTS, RepeatedRequests
from service.streaming import hub
from service.tracing.store_spans import COLLECTIONS
from tests.builders import after, make_event
from tests.service.conftest import open_door
from tests.service.front_door import (
    A_TEST_ID,
    LOGS,
    QUARANTINES,
    SEARCH,
    TESTS,
    FrontDoor,
)
from tests.service.tracing.conftest import (
    Spans,
    attributes_of,
    ids_of,
    is_request,
    is_root,
    open_traced,
    open_tracing,
)
from tests.spans import PROTOBUF, make_request, make_span, write
from tests.waiting import until


async def test_the_span_of_a_request_has_its_route_and_status(
    traced: FrontDoor, spans: Spans
) -> None:
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
    assert {part.name for part in parts} >= {"find_key keys", "find_repository repositories"}
    assert parts[-1].name == "search_tests identities"
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
    # The body is in the cache by now: so its response is remembered as well.
    await traced.get(QUARANTINES)
    spans.take_request()
    # The next two make the head known, so the third one is answered before it is parsed.
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
        # The text of an error can contain untrusted data.
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
        spans.take_request()
        await traced.get(QUARANTINES)
        request, parts = spans.take_request()
        # The response cache asks whether its response is valid, and nothing else.
        assert [part.name for part in parts] == ["MGET"]
        assert attributes_of(request)["mergewatch.response_cache.hit"]


async def test_calls_to_elasticsearch_and_redis_are_parts_of_their_request(
    elasticsearch_place: ElasticsearchPlace, redis_url: str, spans: Spans
) -> None:
    place = elasticsearch_place
    settings = Settings(
        elasticsearch_url=place.urls,
        elasticsearch_prefix=place.prefix,
        redis_url=redis_url,
        ingest=True,
    )
    async with open_traced(settings, open_tracing(spans)) as traced:
        body = write(make_request([make_span("a"), make_span("b", "failed")]), PROTOBUF)
        path = "/v1/ci/acme/repositories/widgets/traces"
        assert (await traced.post(path, body, PROTOBUF)).status == 200
        upload, writes = spans.take_request()
        answer = await traced.get(f"{SEARCH}?test_name=*")
        search, reads = spans.take_request()
    assert answer.json["size"] == 2
    for request, parts, calls in (
        (upload, writes, {"write_results executions", "refresh_tests tests"}),
        (search, reads, {"search_tests identities"}),
    ):
        by_system = {
            system: [part for part in parts if attributes_of(part)["db.system.name"] == system]
            for system in ("elasticsearch", "redis")
        }
        assert sum(map(len, by_system.values())) == len(parts)
        assert calls <= {part.name for part in by_system["elasticsearch"]}
        assert "MGET" in {part.name for part in by_system["redis"]}
        for part in parts:
            assert part.parent is not None
            assert part.parent.span_id == request.context.span_id
            assert part.context.trace_id == request.context.trace_id
            assert "error.type" not in attributes_of(part)


async def test_without_traces_nothing_is_wrapped(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path)):
        assert type(door.reader) is SqliteStore
        assert type(door.app[REPEATED_REQUESTS]) is RepeatedRequests


# The calls about the whole store. Every other call belongs in one of `COLLECTIONS`.
WITHOUT_COLLECTION = (
    "get_identity",
    "get_prune_run",
    "get_status",
    "hold_lease",
    "ping",
    "prune",
    "rebuild",
    "release_lease",
    "replace_prune_run",
)


def test_every_call_has_one_collection_or_is_about_the_whole_store() -> None:
    named = [call for calls in COLLECTIONS.values() for call in calls]
    assert sorted((*named, *WITHOUT_COLLECTION)) == sorted(CALLS)
