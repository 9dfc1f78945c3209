"""POST .../traces over HTTP: permissions, accepted bodies, and the stored results."""

from __future__ import annotations

import asyncio
import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from yarl import URL

from indexing.errors import StoreUnavailableError
from indexing.models.keys import Scope
from indexing.timestamps import format_timestamp
from service.config.settings import Settings
from service.ingest.limiter import SMALL_AT_ONCE_PER_SENDER
from tests.builders import NOON, after
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, SEARCH, TESTS, Answer, FrontDoor, assert_problem, hold_up
from tests.service.handlers.sending import ALIAS, KINDS, TRACES, assert_refused, names_of
from tests.spans import JSON, PROTOBUF, make_request, make_span, write


def rejected(answer: Answer, kind: str) -> tuple[int, str]:
    """Return the number of rejected spans in a response, and the reason."""
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, kind)
    if kind == PROTOBUF:
        partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
        return partial.rejected_spans, partial.error_message
    found: Any = answer.json.get("partialSuccess", {})
    return int(found.get("rejectedSpans", 0)), found.get("errorMessage", "")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_request_sent_again_changes_nothing(open_: FrontDoor, kind: str) -> None:
    body = write(make_request([make_span("a"), make_span("a", "failed")]), kind)
    states = []
    for _ in range(2):
        assert rejected(await open_.post(TRACES, body, kind), kind) == (0, "")
        (test,) = (await open_.get(f"{SEARCH}?test_name=a")).json["tests"]
        detail = await open_.get(f"{TESTS}/{test['test_id']}")
        states.append((detail.body, await open_.store.get_status(NOON)))
    assert states[0] == states[1]
    assert states[0][1].executions == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_rejected_spans_are_reported_and_the_rest_is_stored(
    open_: FrontDoor, kind: str
) -> None:
    spans = [make_span("a"), make_span("b", "nonsense"), make_span("c", trace_id=bytes(16))]
    answer = await open_.post(TRACES, write(make_request(spans), kind), kind)
    count, why = rejected(answer, kind)
    assert count == 2
    assert "spans[1]: test.case.result.status must be passed, failed or skipped" in why
    assert "spans[2]: traceId" in why
    assert await names_of(open_) == ["a"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [1, 2**63 - 1])
async def test_a_span_of_a_wrong_clock_is_rejected_and_blinds_no_test(
    open_: FrontDoor, kind: str, end: int
) -> None:
    results = [make_span("a", "failed", at) for at in (after(hours=-1), NOON)]
    request = make_request([*results, make_span("a", "skipped", end_time_unix_nano=end)])
    count, why = rejected(await open_.post(TRACES, write(request, kind), kind), kind)
    assert count == 1
    assert "spans[2]: endTimeUnixNano is " in why
    (test,) = (await open_.get(f"{SEARCH}?test_name=a")).json["tests"]
    detail = (await open_.get(f"{TESTS}/{test['test_id']}")).json
    assert (detail["last_conclusion"], detail["failure_ratio"]) == ("failed", 1.0)
    assert detail["first_failure_at"] == format_timestamp(after(hours=-1))


async def test_the_day_ahead_is_counted_by_the_clock_of_the_service(open_: FrontDoor) -> None:
    tomorrow = write(make_request([make_span("a", at=after(hours=25))]), PROTOBUF)
    assert rejected(await open_.post(TRACES, tomorrow, PROTOBUF), PROTOBUF)[0] == 1
    open_.clock.now = after(hours=1)
    assert rejected(await open_.post(TRACES, tomorrow, PROTOBUF), PROTOBUF)[0] == 0


async def test_spans_that_are_no_tests_are_neither_stored_nor_rejected(open_: FrontDoor) -> None:
    spans = [
        make_span("session", attributes={"test.scope": "session"}),
        make_span("GET /", None, attributes={"test.scope": None}),
    ]
    answer = await open_.post(TRACES, write(make_request(spans), PROTOBUF), PROTOBUF)
    assert rejected(answer, PROTOBUF) == (0, "")
    assert await names_of(open_) == []


async def test_a_failure_and_a_pass_on_one_commit_make_a_flaky_test(open_: FrontDoor) -> None:
    for attempt, result in enumerate(("failed", "passed"), start=1):
        span = make_span("a", result, NOON + timedelta(minutes=attempt))
        request = make_request([span], {"cicd.pipeline.run.attempt": attempt})
        await open_.post(TRACES, write(request, PROTOBUF), PROTOBUF)
    (test,) = (await open_.get(f"{SEARCH}?test_name=a")).json["tests"]
    detail = (await open_.get(f"{TESTS}/{test['test_id']}")).json
    assert (detail["health_status"], detail["flakiness_ratio"]) == ("flaky", 1.0)


@pytest.mark.parametrize("target", [TRACES, ALIAS])
async def test_without_the_setting_there_is_no_such_path(door: FrontDoor, target: str) -> None:
    body = write(make_request([make_span()]), PROTOBUF)
    refused = await door.post(target, body, PROTOBUF)
    assert_refused(refused, 404)
    assert "MERGEWATCH_INGEST=true" in refused.json["detail"]
    # The same for a repository that this key may not see, and without a key.
    for owner, key in (("hidden", door.key), ("acme", "")):
        other = target.replace("/acme/", f"/{owner}/")
        assert (await door.post(other, body, PROTOBUF, key=key)).body == refused.body
    assert_refused(await door.get(target), 404)


async def test_without_the_setting_events_are_refused_with_the_reason(door: FrontDoor) -> None:
    refused = await door.post(LOGS, b"{}", "application/x-ndjson")
    assert_refused(refused, 405)
    assert "POST" not in refused.headers["Allow"]
    assert "MERGEWATCH_INGEST=true" in refused.json["detail"]


async def test_a_repository_becomes_known_by_what_is_sent_of_it(open_: FrontDoor) -> None:
    target = "/v1/ci/ACME/repositories/New.One/traces"
    bad = write(make_request([make_span("")]), PROTOBUF)
    good = write(make_request([make_span("a")]), PROTOBUF)
    key = await open_.new_key(Scope.INGEST)
    await open_.post(target, bad, PROTOBUF, key=key)
    assert_refused(await open_.get("/v1/repos/acme/new.one/logs"), 404)
    await open_.post(target, good, PROTOBUF, key=key)
    assert (await open_.get("/v1/repos/acme/new.one/logs")).status == 200
    assert await names_of(open_, "New.One") == ["a"]


async def test_bodies_beyond_the_memory_limit_get_503_with_retry_after(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = write(make_request([make_span("a")]), PROTOBUF)
    with monkeypatch.context() as patched:
        patched.setattr("service.ingest.limiter.MAX_HELD_BYTES", len(body) - 1)
        answer = await open_.post(TRACES, body, PROTOBUF)
        assert_refused(answer, 503)
        assert int(answer.headers["Retry-After"]) > 0
        # A refused body no longer counts towards the limit.
        patched.setattr("service.ingest.limiter.MAX_HELD_BYTES", len(body))
        assert (await open_.post(TRACES, body, PROTOBUF)).status == 200
        assert (await open_.post(TRACES, body, PROTOBUF)).status == 200


async def test_one_credential_leaves_room_for_the_bodies_of_others(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = write(make_request([make_span("a")]), PROTOBUF)
    other = await open_.new_key(Scope.INGEST)
    monkeypatch.setattr("service.ingest.limiter.MAX_HELD_BYTES", 3 * len(body))
    monkeypatch.setattr("service.ingest.limiter.MAX_HELD_BYTES_PER_SENDER", 2 * len(body))
    monkeypatch.setattr("service.ingest.limiter.SLOT_SECONDS", 600.0)
    held = hold_up(open_, monkeypatch, "refresh_tests")
    flood = [asyncio.create_task(open_.post(TRACES, body, PROTOBUF)) for _ in range(6)]
    done = asyncio.as_completed(flood)
    for _ in range(4):
        # A third one would wait for a slot.
        assert_refused(await asyncio.wait_for(next(done), 60), 503)
    one_of_another = asyncio.create_task(open_.post(TRACES, body, PROTOBUF, key=other))
    await held.arrived.wait()
    held.released.set()
    assert [(await answer).status for answer in (*done, one_of_another)] == [200] * 3


async def test_a_body_waits_for_its_turn_so_long_and_no_longer(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = write(make_request([make_span("a")]), PROTOBUF)
    monkeypatch.setattr("service.ingest.limiter.SLOT_SECONDS", 0.05)
    held = hold_up(open_, monkeypatch, "refresh_tests")
    sent = [
        asyncio.create_task(open_.post(TRACES, body, PROTOBUF))
        for _ in range(SMALL_AT_ONCE_PER_SENDER + 1)
    ]
    assert_refused(await next(asyncio.as_completed(sent)), 503)
    held.released.set()
    assert sorted([(await answer).status for answer in sent]) == [
        200
    ] * SMALL_AT_ONCE_PER_SENDER + [503]


async def test_a_store_that_cannot_write_is_a_503_and_what_is_sent_again_lands(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> int:
        raise StoreUnavailableError("database is locked")

    body = write(make_request([make_span("a")]), PROTOBUF)
    with monkeypatch.context() as patched:
        patched.setattr(open_.reader, "refresh_tests", fail)
        answer = await open_.post(TRACES, body, PROTOBUF)
        assert_refused(answer, 503)
        assert int(answer.headers["Retry-After"]) > 0
    assert rejected(await open_.post(TRACES, body, PROTOBUF), PROTOBUF) == (0, "")
    assert await names_of(open_) == ["a"]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    body=st.binary(max_size=300) | st.sampled_from([b"{}", b"[]", b'{"resourceSpans":[{}]}']),
    kind=st.sampled_from([PROTOBUF, JSON, "", "a/b", "text/plain"]),
    packing=st.sampled_from(["", "gzip", "identity", "br"]),
    really=st.booleans(),
    target=st.sampled_from([TRACES, ALIAS, LOGS]),
)
def test_no_garbage_is_an_error_of_the_service(
    garbage_door: Any, body: bytes, kind: str, packing: str, really: bool, target: str
) -> None:
    sent = gzip.compress(body) if really and packing == "gzip" else body
    answer = garbage_door(target, sent, kind, packing)
    assert answer.status in (200, 400, 413, 415), answer.body
    if answer.status != 200:
        assert_problem(answer.status, answer.headers["Content-Type"], answer.body)


@pytest.fixture
def garbage_door(tmp_path: Path) -> Any:
    """A service for a Hypothesis test, which runs many times and has no event loop."""
    loop = asyncio.new_event_loop()
    doors = open_door(Settings(data_dir=tmp_path, ingest=True))
    opened = loop.run_until_complete(anext(doors))
    opened.key = loop.run_until_complete(opened.new_key(Scope.ADMIN))

    def send(target: str, body: bytes, kind: str, packing: str) -> Answer:
        return loop.run_until_complete(opened.post(target, body, kind, Content_Encoding=packing))

    yield send
    loop.run_until_complete(anext(doors, None))
    loop.close()


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.ingest.limiter.BODY_SECONDS", 0.1)
    url = URL(open_.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = (
        f"POST {TRACES} HTTP/1.1",
        "Host: a",
        f"Authorization: Bearer {open_.key}",
        f"Content-Type: {PROTOBUF}",
        "Content-Length: 1000",
    )
    writer.write("\r\n".join(head).encode() + b"\r\n\r\nonly this")
    answer = await reader.readuntil(b"}")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"did not arrive within" in answer
    writer.close()
    await writer.wait_closed()
