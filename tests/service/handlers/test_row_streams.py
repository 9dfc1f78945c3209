"""Lists as streams of all rows: lines of JSON, and CSV."""

from __future__ import annotations

import asyncio
import csv
import io
import tracemalloc
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.events import Outcome
from service.handlers.row_stream import (
    MAX_STREAMS_PER_PRINCIPAL,
    PIECE_BYTES,
    ROW_STREAMS,
    ROWS_AT_ONCE,
)
from service.streaming import lasting_access
from service.streaming.rows import RowFormat
from tests.builders import NOON, after, load_names, make_event
from tests.service.front_door import LOGS, SEARCH, FrontDoor
from tests.waiting import until

NDJSON = "application/x-ndjson"
CSV = "text/csv"
COUNT = 2 * ROWS_AT_ONCE + 7

HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\tx",
    'a "b", c',
    "two\nlines",
    "\r\n",
    "'x",
    "\uff1dx",
    "ü🧪",
]


@pytest.fixture(autouse=True)
async def filled(door: FrontDoor) -> None:
    door.clock.now = after(hours=1)
    await door.store.write_events(
        [
            make_event(
                number,
                after(seconds=number // 2),
                pull_request=number % 5 or None,
                trigger=HOSTILE[number % len(HOSTILE)],
                outcome=Outcome.FAILURE if number % 2 else Outcome.SUCCESS,
                metadata={"message": "x, y"},
            )
            for number in range(COUNT)
        ]
    )


async def rows_of(door: FrontDoor, query: str = "") -> list[Any]:
    pages = await door.walk(f"{LOGS}?per_page=100{query}", "events")
    return [row for page in pages for row in page]


@pytest.mark.parametrize("query", ["", "&outcome=failure", "&pull_request=9"])
async def test_all_rows_of_the_log_come_as_lines_of_json(door: FrontDoor, query: str) -> None:
    answer = await door.get(f"{LOGS}?per_page=3{query}", Accept=NDJSON)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == NDJSON
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Link" not in answer.headers
    assert [orjson.loads(line) for line in answer.body.splitlines()] == await rows_of(door, query)
    assert answer.body.endswith(b"\n") or not answer.body


async def test_csv_has_a_header_and_runs_nothing_in_a_spreadsheet(door: FrontDoor) -> None:
    answer = await door.get(LOGS, Accept=CSV)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    header, *lines = csv.reader(io.StringIO(answer.body.decode(), newline=""))
    assert header == [
        *("id", "received_at", "trigger", "repository"),
        *("pull_request", "base_ref", "type", "metadata"),
    ]
    rows = await rows_of(door)
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        told = dict(zip(header, line, strict=True))
        assert told["id"] == str(row["id"])
        assert told["pull_request"] == str(row["pull_request"] or "")
        assert orjson.loads(told["metadata"]) == row["metadata"]
        dangerous = row["trigger"][0] in "=+-@\t\r\n\uff1d"
        assert told["trigger"] == ("'" if dangerous else "") + row["trigger"]


async def test_the_search_streams_too_and_its_pages_stay_as_they_are(door: FrontDoor) -> None:
    await load_names(door.store, [f"test {n:04}" for n in range(ROWS_AT_ONCE + 9)] + ["=cmd"])
    target = f"{SEARCH}?test_name=*&sort=test_name&direction=asc"
    pages = await door.walk(f"{target}&per_page=100", "tests")
    rows = [row for page in pages for row in page]
    cached = await door.get(target)
    lines = await door.get(target, Accept=NDJSON)
    assert [orjson.loads(line) for line in lines.body.splitlines()] == rows
    table = await door.get(target, Accept=CSV)
    header, *cells = csv.reader(io.StringIO(table.body.decode(), newline=""))
    assert header == ["test_id", "test_name", "pipeline_name", "job_name"]
    assert [each[1] for each in cells] == ["'=cmd", *(row["test_name"] for row in rows[1:])]
    again = await door.get(target)
    assert (again.body, again.headers["ETag"]) == (cached.body, cached.headers["ETag"])
    for answer in (cached, lines, table, again):
        assert answer.headers.getall("Vary") == ["Authorization", "Accept"]


async def test_a_stream_begins_with_the_first_row(door: FrontDoor) -> None:
    first = await door.get(LOGS)
    answer = await door.get(first.links["next"], Accept=NDJSON)
    assert answer.wrong_fields == [("query", "cursor")]


async def test_what_is_wrong_is_a_problem_in_any_format(door: FrontDoor) -> None:
    answer = await door.get(f"{LOGS}?outcome=x", Accept=CSV)
    assert answer.wrong_fields == [("query", "outcome")]
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert (await door.get(LOGS, Accept=NDJSON, key="mw_x")).status == 403


async def test_head_has_the_headers_and_no_body(door: FrontDoor) -> None:
    head = await door.get(LOGS, method="HEAD", Accept=CSV)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"].startswith(CSV)
    assert door.app[ROW_STREAMS].open == 0


def hold_second_page(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> tuple[asyncio.Event, asyncio.Event]:
    """Return an event that the read of a second page sets, and one for which it waits to fail."""
    read, arrived, released = door.reader.list_events, asyncio.Event(), asyncio.Event()

    async def fail(query: Any, anchor: Any, limit: int) -> Any:
        if anchor.key is not None:
            arrived.set()
            await released.wait()
            raise StoreUnavailableError("gone")
        return await read(query, anchor, limit)

    monkeypatch.setattr(door.reader, "list_events", fail)
    return arrived, released


async def request_rows(door: FrontDoor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Request a stream over HTTP/1.0, where the end of the connection ends the body."""
    host, port = door.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"GET {LOGS} HTTP/1.0\r\nAccept: {NDJSON}\r\nAuthorization: Bearer {door.key}\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_broken_off_stream_never_looks_complete(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    read, calls = door.reader.list_events, 0

    async def fail(*about: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise StoreUnavailableError("gone")
        return await read(*about)

    monkeypatch.setattr(door.reader, "list_events", fail)
    if version == "1.1":
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
            await door.get(LOGS, Accept=NDJSON)
    else:
        reader, writer = await request_rows(door)
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        writer.close()
    assert door.app[ROW_STREAMS].open == 0


async def test_integers_of_any_size_are_exact_in_csv(door: FrontDoor) -> None:
    for number, digits in ((9_001, 20), (9_002, 400)):
        event = make_event(number, after(minutes=10), pull_request=77)
        text = event.body.replace(b'"metadata":{}', b'"metadata":{"n":%b}' % (b"7" * digits))
        await door.store.write_events([replace(event, body=text)])
    rows = (await door.get(f"{LOGS}?pull_request=77", Accept=CSV)).body.decode()
    longer, shorter = rows.splitlines()[1:]
    assert ("7" * 400 in longer, "7" * 20 in shorter) == (True, True)
    assert "7" * 21 not in shorter


async def test_a_stream_that_breaks_off_after_its_client_left_is_no_error(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arrived, has_left = hold_second_page(door, monkeypatch)
    _, writer = await request_rows(door)
    await until(arrived.is_set)
    server = door.runner.server
    assert server is not None
    writer.transport.abort()
    await until(lambda: not server.connections)
    has_left.set()
    await until(lambda: door.app[ROW_STREAMS].open == 0)
    await asyncio.sleep(0)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_stream_that_a_shutdown_cuts_off_never_looks_complete(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, _ = hold_second_page(door, monkeypatch)
    reader, writer = await request_rows(door)
    await until(arrived.is_set)
    server = door.runner.server
    assert server is not None
    for connection in server.connections:
        await connection.shutdown(0.01)
    with pytest.raises(ConnectionResetError):
        await reader.read(-1)
    writer.close()


async def test_a_credential_has_a_few_streams_at_a_time(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, hold = door.reader.list_events, asyncio.Event()
    arrived = asyncio.Semaphore(0)

    async def wait(query: Any, anchor: Any, limit: int) -> Any:
        if anchor.key is not None:
            arrived.release()
            await hold.wait()
        return await read(query, anchor, limit)

    monkeypatch.setattr(door.reader, "list_events", wait)
    open_ = [
        asyncio.create_task(door.get(LOGS, Accept=NDJSON)) for _ in range(MAX_STREAMS_PER_PRINCIPAL)
    ]
    for _ in open_:
        await arrived.acquire()
    refused = await door.get(LOGS, Accept=NDJSON)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
    assert (await door.get(LOGS)).status == 200
    other = asyncio.create_task(door.get(LOGS, Accept=NDJSON, key=await door.new_key()))
    await arrived.acquire()
    hold.set()
    assert {each.status for each in await asyncio.gather(*open_, other)} == {200}
    assert (await door.get(LOGS, Accept=NDJSON)).status == 200
    assert door.app[ROW_STREAMS].open == 0


async def test_a_stream_that_cannot_begin_leaves_no_stream_open(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> Any:
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(door.reader, "list_events", fail)
        for _ in range(MAX_STREAMS_PER_PRINCIPAL):
            assert (await door.get(LOGS, Accept=NDJSON)).status == 503
    assert (await door.get(LOGS, Accept=NDJSON)).status == 200


async def test_a_client_that_goes_away_leaves_no_stream_open(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, arrived, cancelled = door.reader.list_events, asyncio.Event(), asyncio.Event()

    async def wait(query: Any, anchor: Any, limit: int) -> Any:
        if anchor.key is None:
            return await read(query, anchor, limit)
        arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr(door.reader, "list_events", wait)
    request = asyncio.create_task(door.get(LOGS, Accept=NDJSON))
    await arrived.wait()
    request.cancel()
    await cancelled.wait()
    # The same iteration of the event loop that cancels the read releases the stream.
    assert (await door.get(LOGS)).status == 200
    assert door.app[ROW_STREAMS].open == 0


@pytest.mark.parametrize("media_type", [NDJSON, CSV])
async def test_an_iteration_of_the_event_loop_writes_few_rows_for_all_streams(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, media_type: str
) -> None:
    for number in range(COUNT, COUNT + 20):
        message = "x" * PIECE_BYTES
        event = make_event(number, after(minutes=30), metadata={"message": message})
        await door.store.write_events([event])
    write, now, most = RowFormat.write, 0, 0

    def begin_iteration() -> None:
        nonlocal now
        now = 0

    def note(rows: RowFormat[Any], media_type: str, row: Any) -> bytes:
        nonlocal now, most
        if not now:
            # Before anything is written in the next iteration.
            asyncio.get_running_loop().call_soon(begin_iteration)
        written = write(rows, media_type, row)
        now += len(written)
        most = max(most, now)
        return written

    monkeypatch.setattr(RowFormat, "write", note)
    streams = [door.get(LOGS, Accept=media_type) for _ in range(MAX_STREAMS_PER_PRINCIPAL)]
    assert {each.status for each in await asyncio.gather(*streams)} == {200}
    # A piece, and a row that exceeds it.
    assert PIECE_BYTES < most < 3 * PIECE_BYTES


async def test_memory_stays_flat(door: FrontDoor) -> None:
    """The service's own: the client here reads and forgets."""
    headers = {"Authorization": f"Bearer {door.key}", "Accept": NDJSON}

    async def peak() -> int:
        tracemalloc.start()
        async with door.client.get(door.base + LOGS, headers=headers) as answer:
            async for _ in answer.content.iter_chunked(65_536):
                pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    await peak()
    small = await peak()
    for start in range(COUNT, 10 * COUNT, 500):
        await door.store.write_events(
            [
                make_event(n, after(seconds=n // 2), metadata={"message": "x" * 300})
                for n in range(start, start + 500)
            ]
        )
    # Two to three times as much, because these rows are longer: the same for any number of them.
    assert await peak() < 4 * small


async def test_an_export_breaks_off_after_its_key_is_revoked(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "CHECK_SECONDS", 0.0)
    key = await door.add_key(key_id="short-lived")
    pages = 0

    async def list_events(*about: Any) -> Any:
        nonlocal pages
        pages += 1
        if pages == 2:
            await door.store.revoke_key("short-lived", NOON)
        return await read_page(*about)

    read_page = type(door.reader).list_events
    monkeypatch.setattr(type(door.reader), "list_events", list_events)
    with pytest.raises(aiohttp.ClientError):
        await door.get(LOGS, key=key, Accept=NDJSON)
    # The page that was being read is the last one.
    assert pages == 2
    assert (await door.get(LOGS, Accept=NDJSON)).status == 200
