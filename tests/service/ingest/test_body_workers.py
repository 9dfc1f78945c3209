"""Worker processes that read large bodies: what happens when one of them, or the service, dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.config.settings import LogFormat, LogLevel
from service.ingest.body_workers.pool import WorkerPool
from service.ingest.body_workers.wire import BATCH_ITEMS
from service.ingest.body_workers.worker import JobFailedError, WorkerDiedError
from service.ingest.limiter import LARGE_AT_ONCE, LIMITER, SMALL_BODY_BYTES
from service.logs import configure_logging
from tests.service.front_door import LOGS, FrontDoor, hold_up
from tests.service.handlers.sending import NDJSON, make_line
from tests.service.ingest.body_readers import cut, die, refuse
from tests.service.processes import Service, Start

PATIENCE = 60
# One for small bodies, the others for large ones.
WORKERS = 1 + LARGE_AT_ONCE


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    opened = WorkerPool(1, niceness=0)
    yield opened
    await opened.close()


async def read(
    pool: WorkerPool, reader: Callable[[bytes], Iterator[bytes | None]], *pieces: bytes
) -> list[bytes]:
    return [item async for batch in pool.read(reader, pieces, packed=False) for item in batch]


async def test_a_worker_gives_what_its_reader_gives_in_bounded_batches(pool: WorkerPool) -> None:
    content = b"a b" * BATCH_ITEMS
    sizes = [len(batch) async for batch in pool.read(cut, [content[:5], content[5:]], packed=False)]
    assert sum(sizes) == 2 * BATCH_ITEMS
    assert max(sizes) == BATCH_ITEMS
    assert await read(pool, cut, b"x", b"y") == [b"x", b"y"]
    assert len(pool.pids) == 1


async def test_a_worker_takes_no_modules_from_the_current_folder(
    pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert await read(pool, cut, b"x") == [b"x"]


async def test_a_body_that_cannot_be_read_leaves_the_worker_ready(pool: WorkerPool) -> None:
    await pool.start()
    before = pool.pids
    with pytest.raises(JobFailedError, match="bad") as wrong:
        await read(pool, refuse, b"bad")
    with pytest.raises(JobFailedError, match="much") as large:
        await read(pool, refuse)
    assert (wrong.value.failure.kind, large.value.failure.kind) == ("wrong", "too large")
    assert await read(pool, cut, b"x") == [b"x"]
    assert pool.pids == before


async def test_a_worker_that_dies_is_replaced(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDiedError):
        await read(pool, die, b"x")
    assert await read(pool, cut, b"x") == [b"x"]
    (idle,) = pool.pids
    os.kill(idle, signal.SIGKILL)
    # The pool may have noticed already, or notice only during the read: both are correct.
    with suppress(WorkerDiedError):
        await read(pool, cut, b"x")
    assert await read(pool, cut, b"x") == [b"x"]
    assert idle not in pool.pids


async def test_the_log_says_why_no_worker_can_start(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.ERROR, LogFormat.JSON)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(WorkerDiedError):
            await read(pool, cut, b"x")
    logged = capsys.readouterr().err
    assert "body worker cannot start" in logged
    assert "No such file or directory" in logged
    assert await read(pool, cut, b"x") == [b"x"]


async def test_a_caller_that_stops_early_leaves_no_work_behind(pool: WorkerPool) -> None:
    reading = pool.read(cut, [b"x" * 100_000], packed=False)
    async for _ in reading:
        break
    (busy,) = pool.pids
    await reading.aclose()
    assert busy not in pool.pids
    assert await read(pool, cut, b"x") == [b"x"]


async def test_workers_pay_no_heed_to_the_signals_of_their_service(pool: WorkerPool) -> None:
    assert await read(pool, cut, b"x") == [b"x"]
    (pid,) = pool.pids
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert await read(pool, cut, b"y") == [b"y"]
    assert pool.pids == (pid,)


def large_body() -> bytes:
    body = b"".join(make_line(number, trigger="x" * 1000) for number in range(100))
    assert len(body) > SMALL_BODY_BYTES
    return body


async def test_an_upload_whose_worker_was_killed_gets_retry_after(
    open_: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = large_body() * 40
    held = hold_up(open_, monkeypatch, "ensure_repository")
    sending = asyncio.create_task(open_.post(LOGS, body, NDJSON))
    # Its first lines have been read; the rest does not fit into the pipe between the processes.
    await held.wait_for_one_of(sending)
    for pid in open_.app[LIMITER].worker_pids:
        os.kill(pid, signal.SIGKILL)
    held.released.set()
    answer = await sending
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    again = await open_.post(LOGS, body, NDJSON)
    assert (again.status, again.json["refused"]) == (200, 0)


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    # A zombie: it ended, and its parent has not read its exit status yet.
    return state == "Z"


def children_of(service: Service) -> list[int]:
    printed = subprocess.run(
        ["pgrep", "-P", str(service.process.pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [int(pid) for pid in printed.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_service_however_it_ends(
    start: Start, number: signal.Signals
) -> None:
    service = start(MERGEWATCH_INGEST="true")
    service.next_line("listening")
    deadline = time.monotonic() + PATIENCE
    while len(pids := children_of(service)) < WORKERS and time.monotonic() < deadline:
        time.sleep(0.01)
    service.stop(number)
    while not all(map(has_ended, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pids) == WORKERS
    assert all(map(has_ended, pids))
