"""`mergewatch ci junit` without quarantines: the job keeps the result of its tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from indexing.errors import StoreUnavailableError
from indexing.models.keys import Scope
from indexing.store import STORE_FILE
from indexing.store.sqlite.store import SqliteStore
from indexing.timestamps import format_timestamp
from service.cache.reader import CachedReader
from service.server.listener import http_url
from service.server.process import bind
from tests.builders import NOON
from tests.service.cli.ci.jobs import FAILED, OTHER, PASSED, JobCheck, quarantine
from tests.service.front_door import FrontDoor

# What decides where quarantines are unknown: the test command, or the reports without its status.
TESTS_ALONE = pytest.mark.parametrize(
    ("arguments", "cases", "code"),
    [
        ((), (PASSED,), 0),
        ((), (FAILED,), 1),
        ((), ("",), 1),
        (("--test-exit-code=0",), (FAILED,), 0),
        (("--test-exit-code=5",), (FAILED,), 5),
        (("--test-exit-code=5",), (PASSED,), 5),
        (("--test-exit-code=256",), (PASSED,), 255),
    ],
)


@TESTS_ALONE
async def test_a_refused_key_leaves_the_tests_their_result(
    door: FrontDoor,
    check: JobCheck,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    cases: tuple[str, ...],
    code: int,
) -> None:
    await quarantine(door, "b")
    monkeypatch.setenv("MERGEWATCH_TOKEN", "mw_wrong")
    result = await check(*arguments, cases=cases, code=code)
    assert "warning: quarantines are unknown, so the tests decide alone" in result.stderr


@pytest.mark.parametrize("url", [None, ""])
@pytest.mark.parametrize("token", ["", " \n"])
@TESTS_ALONE
async def test_a_pull_request_from_a_fork_gets_an_empty_key_and_keeps_its_result(
    door: FrontDoor,
    check: JobCheck,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    token: str,
    url: str | None,
    arguments: tuple[str, ...],
    cases: tuple[str, ...],
    code: int,
) -> None:
    await quarantine(door, "b")
    monkeypatch.setenv("MERGEWATCH_TOKEN", token)
    if url is not None:
        monkeypatch.setenv("MERGEWATCH_URL", url)
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(tmp_path / "none"))
    result = await check(*arguments, cases=cases, code=code)
    assert "warning: MERGEWATCH_TOKEN is empty" in result.stderr
    assert "warning: quarantines are unknown, so the tests decide alone" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("hangs", [False, True])
async def test_results_are_stored_although_quarantines_cannot_be_read(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    async def fail(*_: object) -> None:
        if hangs:
            await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as broken:
        broken.setattr(CachedReader, "list_quarantines", fail)
        # Half of the time is left for the results; a busy machine needs some of it.
        words = (f"--started-at={format_timestamp(NOON)}", "--timeout=10")
        result = await check(*words, cases=(FAILED,), code=1)
    assert "warning: quarantines are unknown, so the tests decide alone" in result.stderr
    assert (await door.store.get_status(NOON)).executions == 1


@TESTS_ALONE
async def test_a_store_that_cannot_be_opened_leaves_the_tests_their_result(
    check: JobCheck,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    cases: tuple[str, ...],
    code: int,
) -> None:
    monkeypatch.delenv("MERGEWATCH_URL")
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    (tmp_path / STORE_FILE).write_bytes(b"not a database" * 1_000)
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(tmp_path))
    result = await check(*arguments, cases=cases, code=code)
    assert "warning: the store is unavailable: " in result.stderr
    assert "warning: quarantines are unknown, so the tests decide alone" in result.stderr


async def test_a_store_that_fails_under_way_leaves_the_tests_their_result(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("it is down")

    monkeypatch.delenv("MERGEWATCH_URL")
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    monkeypatch.setattr(SqliteStore, "write_results", fail)
    result = await check(cases=(PASSED,))
    assert "warning: the store is unavailable: it is down\n" in result.stderr
    assert "warning: the results are not stored, so the tests decide alone" in result.stderr


async def test_quarantines_are_not_called_unknown_if_only_the_upload_fails(
    door: FrontDoor, check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWATCH_TOKEN", await door.new_key(Scope.READ))
    result = await check(cases=(FAILED,), code=1)
    assert "warning: the results are not stored, so the tests decide alone" in result.stderr
    assert "unknown" not in result.stderr


async def test_a_key_that_is_missing_altogether_is_wrong_usage(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MERGEWATCH_TOKEN")
    result = await check(cases=(PASSED,), code=2)
    assert "MERGEWATCH_URL is set without MERGEWATCH_TOKEN" in result.stderr


@pytest.mark.slow
async def test_a_service_that_is_down_leaves_the_tests_their_result(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bind("127.0.0.1", 0) as listener:
        url = http_url(listener)
    monkeypatch.setenv("MERGEWATCH_URL", url)
    result = await check("--timeout=1", cases=(PASSED,))
    assert "took longer than 1 s\n" in result.stderr
    await check("--timeout=1", cases=(OTHER,), code=1)


@pytest.mark.parametrize("row", ["1", "{}"])
async def test_a_service_that_is_no_mergewatch_leaves_the_tests_their_result(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    async def respond(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.Response(content_type="application/x-protobuf")
        text = f'{{"quarantined_tests": [{row}]}}'
        return web.Response(text=text, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", respond)
    async with TestServer(app) as server:
        monkeypatch.setenv("MERGEWATCH_URL", str(server.make_url("")))
        result = await check(cases=(FAILED,), code=1)
    assert "is not a mergewatch service\n" in result.stderr
    assert "the tests decide alone" in result.stderr


async def test_a_service_that_is_slow_is_not_waited_for(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", hang)
    async with TestServer(app) as server:
        monkeypatch.setenv("MERGEWATCH_URL", str(server.make_url("")))
        result = await check("--timeout=1", cases=(PASSED, OTHER), code=1)
    assert "warning: the service took longer than 1 s" in result.stderr
    assert "1 failed, not quarantined:" in result.stdout


async def test_a_service_that_is_busy_for_too_long_is_not_called_silent(
    check: JobCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "20"})

    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", refuse)
    async with TestServer(app) as server:
        monkeypatch.setenv("MERGEWATCH_URL", str(server.make_url("")))
        result = await check("--timeout=1", cases=(PASSED,))
    assert "the service is unavailable or busy; trying again in 20 s\n" in result.stderr
    assert "warning: the service took longer than 1 s\n" in result.stderr
