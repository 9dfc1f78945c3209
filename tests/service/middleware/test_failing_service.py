"""The responses of a service whose store fails, that has a defect, or that is stopping."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from yarl import URL

from indexing.errors import StoreError, StoreUnavailableError
from service.config.settings import LogFormat, LogLevel
from service.context import LIFECYCLE
from service.logs import configure_logging
from tests.service.front_door import LOGS, FrontDoor, assert_problem, hold_up


def break_store(door: FrontDoor, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def fail(*_: object) -> None:
        raise error

    for name in ("find_repository", "ping"):
        monkeypatch.setattr(door.reader, name, fail)


async def test_a_store_that_cannot_answer_is_a_503_that_says_when_to_come_back(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_store(door, monkeypatch, StoreUnavailableError("database is locked"))
    for target in (LOGS, "/health/ready"):
        answer = await door.get(target)
        assert_problem(503, answer.headers["Content-Type"], answer.body)
        assert int(answer.headers["Retry-After"]) > 0
    assert (await door.get("/health/live")).status == 200


async def test_a_store_that_is_broken_is_not_ready(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_store(door, monkeypatch, StoreError("file is not a database"))
    assert (await door.get("/health/ready")).status == 503
    assert (await door.get(LOGS)).status == 500


async def test_an_unexpected_error_is_a_500_and_a_log_line_with_the_id_and_no_credential(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    break_store(door, monkeypatch, ValueError("nobody foresaw this"))
    answer = await door.get(f"{LOGS}?token={door.key}")
    assert_problem(500, answer.headers["Content-Type"], answer.body)
    assert b"foresaw" not in answer.body
    written = capsys.readouterr().err
    lines = [json for line in written.splitlines() if "method" in (json := orjson.loads(line))]
    assert [line["event"] for line in lines] == ["unhandled error", "request"]
    assert {line["request_id"] for line in lines} == {answer.headers["X-Request-Id"]}
    assert "nobody foresaw this" in lines[0]["exception"]
    assert door.key not in written


async def test_a_process_that_is_stopping_is_not_ready_but_alive(door: FrontDoor) -> None:
    door.app[LIFECYCLE].stopping = True
    assert (await door.get("/health/ready")).status == 503
    assert (await door.get("/health/live")).status == 200


async def no_longer_accepts(door: FrontDoor) -> None:
    url = URL(door.base)
    while True:
        try:
            _, writer = await asyncio.open_connection(url.host, url.port)
        except ConnectionError:
            return
        writer.close()


async def test_a_request_under_way_is_finished_when_the_service_stops(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold_up(door, monkeypatch)
    asked = asyncio.create_task(door.get(LOGS))
    await held.arrived.wait()
    stopping = asyncio.create_task(door.runner.cleanup())
    await no_longer_accepts(door)
    held.released.set()
    assert (await asked).status == 200
    await stopping
