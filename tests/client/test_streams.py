"""Streams of all rows, and of events as they arrive."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from mergewatch.client import (
    AsyncClient,
    BrokenStreamError,
    Client,
    ForeignServiceError,
    ProblemError,
    UnreachableError,
    transport,
)
from mergewatch.client.bodies import StreamedEvent
from mergewatch.client.filters import EventSelection, ExecutionSelection
from mergewatch.client.lines import MAX_LINE_BYTES, LineBuffer, LineTooLongError, MessageReader
from mergewatch.client.retries import MAX_ATTEMPTS
from service.handlers import row_stream
from tests.builders import NOON, after, make_event
from tests.client.serving import NAMES, REPOSITORY, answer, chunked, serving, serving_bytes
from tests.service.front_door import FrontDoor
from tests.service.processes import TIMEOUT

NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
OF_TODAY: EventSelection = {"received_from": NOON, "received_to": after(days=1)}
SINCE: ExecutionSelection = {"start": after(days=-1), "end": after(days=1)}
TOO_SHORT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99\r\n\r\n"
    b'{"id": 1}\n{"id": 2}\n'
)


async def test_streams_give_the_rows_of_the_lists(
    door: FrontDoor, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_stream, "ROWS_AT_ONCE", 40)
    await door.store.write_events(
        [make_event(number, after(minutes=number)) for number in range(99)]
    )
    events = [row async for row in client.export_events(REPOSITORY, **OF_TODAY)]
    assert events == [row async for row in client.list_events(REPOSITORY, **OF_TODAY)]
    assert len(events) == 99
    tests = [row async for row in client.export_tests(REPOSITORY, sort="test_name")]
    assert tests == [row async for row in client.search_tests(REPOSITORY, sort="test_name")]
    test_id = tests[0]["test_id"]
    runs = [row async for row in client.export_executions(REPOSITORY, test_id, **SINCE)]
    assert runs == [row async for row in client.list_executions(REPOSITORY, test_id, **SINCE)]
    assert len(runs) == 1


async def test_counts_failures_and_runs_are_read(door: FrontDoor, client: AsyncClient) -> None:
    await door.store.write_events([make_event(1), make_event(2)])
    counted = await client.aggregate_events(REPOSITORY, **OF_TODAY)
    assert counted["total"] == 2 == sum(bar["count"] for bar in counted["histogram"])
    (test,) = [row async for row in client.search_tests(REPOSITORY, NAMES[0])]
    failures = [row async for row in client.list_failures(REPOSITORY, test["test_id"])]
    detail = await client.get_failure(REPOSITORY, test["test_id"], failures[0]["id"])
    assert [event["commit"] for event in detail["latest_events"]]
    report = await client.get_test_health(REPOSITORY, test["test_id"])
    assert [job["health_status"] for job in report["jobs"]] == [report["health_status"]]
    owned = await client.get_test_health(REPOSITORY, test["test_id"], include="owners")
    assert owned == {**report, "owners": []}
    (run,) = [row async for row in client.list_runs(REPOSITORY, pipeline_name="ci")]
    assert (run["failed"], run["passed"]) == (1, len(NAMES) - 1)
    owner, _, _ = REPOSITORY.partition("/")
    rows = [row async for row in client.list_repositories(owner, sort="worst", per_page=1)]
    found = next(row for row in rows if row["repository"] == REPOSITORY)
    assert found["tests"]["broken"] + found["tests"]["healthy"] == len(NAMES)


@pytest.mark.parametrize(
    "response",
    [
        chunked(NDJSON, b'{"id": 1}\n', b'{"id": 2}\n', ended=False),
        chunked(NDJSON, b'{"id": 1}\n', b'{"id": 2}\n{"id"', ended=True),
        TOO_SHORT,
    ],
    ids=["no last chunk", "half a row", "fewer bytes"],
)
async def test_a_stream_that_is_cut_short_never_looks_complete(response: bytes) -> None:
    async with serving_bytes(response, b"") as (client, _):
        rows = aiter(client.export_events(REPOSITORY))
        assert [(await anext(rows))["id"], (await anext(rows))["id"]] == [1, 2]
        with pytest.raises(BrokenStreamError):
            await anext(rows)


async def test_a_stream_of_another_service_is_named_as_such() -> None:
    for response in (
        chunked("application/json", b"{}", ended=True),
        chunked(NDJSON, b"<html>\n", ended=True),
    ):
        async with serving_bytes(response) as (client, _):
            with pytest.raises(ForeignServiceError):
                await anext(client.export_tests(REPOSITORY).pages())


async def test_a_stream_that_is_refused_is_a_problem(door: FrontDoor, client: AsyncClient) -> None:
    with pytest.raises(ProblemError, match="received_from"):
        await anext(client.export_events(REPOSITORY, received_from="soon").pages())
    with pytest.raises(ProblemError, match="Last-Event-ID"):
        await anext(client.follow_events(REPOSITORY, "x").pages())


async def test_a_stream_that_does_not_begin_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for the rest of an attempt on a busy machine.
    monkeypatch.setattr(transport, "ATTEMPT_SECONDS", 4)
    monkeypatch.setattr(transport, "MAX_ATTEMPTS", 1)
    # The last response does not end, as if the rest came byte by byte.
    async with asyncio.timeout(TIMEOUT / 2):
        async with serving_bytes(b"HTTP/1.1 200 OK\r\nContent-") as (client, _):
            with pytest.raises(UnreachableError, match="did not answer in time"):
                await anext(client.export_events(REPOSITORY).pages())
        refusal = b"HTTP/1.1 503 Busy\r\nContent-Length: 99\r\n\r\n{"
        async with serving_bytes(refusal) as (client, _):
            with pytest.raises(ProblemError, match="503"):
                await anext(client.follow_events(REPOSITORY).pages())


async def take(rows: AsyncClient, count: int, last_id: str | None = None) -> list[StreamedEvent]:
    found: list[StreamedEvent] = []
    async with (
        asyncio.timeout(20),
        aclosing(rows.follow_events(REPOSITORY, last_id).pages()) as all_,
    ):
        async for page in all_:
            found += page
            if len(found) >= count:
                return found
    raise AssertionError


async def test_events_are_followed_and_resumed(door: FrontDoor, client: AsyncClient) -> None:
    await door.store.write_events([make_event(0)])
    place = await door.reader.find_newest_arrival()
    waiting = asyncio.create_task(take(client, 2))
    while not waiting.done():
        # Whatever came before the stream was open is not in it.
        await door.store.write_events([make_event(1 + len(await everything(client)))])
        await asyncio.sleep(0.02)
    found = await waiting
    assert place is not None
    later = await take(client, 1, found[0].id)
    assert later[0] == found[1]


async def everything(client: AsyncClient) -> list[object]:
    return [row async for row in client.list_events(REPOSITORY, **OF_TODAY)]


async def test_a_broken_stream_of_events_goes_on_after_the_last_complete_one() -> None:
    broken = chunked(
        EVENT_STREAM,
        b"id: a\nretry: 5\n\n: \n\n",
        b'id: b\ndata: {"id": 1}\n\nid: c\nda',
        ended=False,
    )
    rest = chunked(EVENT_STREAM, b'id: c\ndata: {"id": 2}\n\n', ended=False)
    for ended in (broken, broken + b"0\r\n\r\n"):
        async with serving_bytes(ended, rest) as (client, heads):
            found = await take(client, 2)
        assert [(each.id, each.event["id"]) for each in found] == [("b", 1), ("c", 2)]
        assert b"Last-Event-ID" not in heads[0]
        assert b"Last-Event-ID: b\r\n" in heads[1]


async def test_a_stream_of_events_waits_for_a_service_that_is_away() -> None:
    first = chunked(EVENT_STREAM, b"id: a\n\n", ended=True)
    busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    away = [b""] * MAX_ATTEMPTS + [busy] * MAX_ATTEMPTS
    rest = chunked(EVENT_STREAM, b'id: c\ndata: {"id": 2}\n\n', ended=False)
    async with serving_bytes(first, *away, rest) as (client, heads):
        assert [each.event["id"] for each in await take(client, 1)] == [2]
    # No event had come, and none was missed.
    assert b"Last-Event-ID: a\r\n" in heads[-1]
    # One that was never there is an error.
    async with serving_bytes(*[b""] * (2 * MAX_ATTEMPTS), rest) as (client, _):
        with pytest.raises(UnreachableError):
            await take(client, 1)


async def test_a_plain_stream_can_be_left_at_any_row(door: FrontDoor) -> None:
    def use() -> list[str]:
        with Client(door.base, door.key) as plain:
            rows = plain.export_tests(REPOSITORY)
            first = next(rows)["test_name"]
            del rows
            return [first, *(row["test_name"] for row in plain.export_tests(REPOSITORY))]

    first, *names = await asyncio.to_thread(use)
    assert first == names[0]
    assert sorted(names) == sorted(NAMES)


def test_messages_are_read_however_they_are_cut() -> None:
    text = b"id: 1\r\nretry: 1500\r\n\r\n: x\ndata: a\ndata:b\nevent: t\n\nid: 3\ndata\n\nid: 4\n"
    for size in range(1, len(text)):
        reader = MessageReader()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        found = [(each.id, each.data) for piece in pieces for each in reader.feed(piece)]
        assert found == [("1", b"a\nb"), ("3", b"")]
        assert (reader.last_id, reader.retry_seconds) == ("3", 1.5)


def test_a_line_without_an_end_is_refused() -> None:
    lines = LineBuffer()
    assert lines.feed(b"x" * MAX_LINE_BYTES) == []
    with pytest.raises(LineTooLongError):
        lines.feed(b"x")


async def test_a_request_to_a_busy_service_is_retried() -> None:
    async with serving(answer(503, Retry_After="1"), answer(404)) as (client, requests):
        with pytest.raises(ProblemError, match="404"):
            await anext(client.export_events(REPOSITORY).pages())
    assert len(requests) == 2
