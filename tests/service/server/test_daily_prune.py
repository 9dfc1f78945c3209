"""The service prunes daily: one process of all does, in a child process; the clock is fake."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from indexing.models.executions import Conclusion
from indexing.pruning import ABANDONED_AFTER, PruneRun
from indexing.store.interface import Store
from service.server import daily_prune
from service.server.daily_prune import DailyPrune
from tests.builders import NOON, WIDGETS, make_executions, make_run
from tests.new_stores import open_new_store
from tests.service.front_door import Clock
from tests.service.processes import TIMEOUT, Start

# Nearly every test starts a process, some in the background.
pytestmark = pytest.mark.slow

AT = time(3, 17)
DUE = datetime(2026, 11, 22, 3, 17, tzinfo=UTC)
YEAR = timedelta(days=365)
FAILING = (sys.executable, "-c", "raise SystemExit('no room')")


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setenv("MERGEWATCH_DATA_DIR", str(tmp_path))
    opened = await open_new_store(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now = DUE - timedelta(hours=1)
    return clock


async def write_old_results(store: Store) -> None:
    """Write two results at `NOON`, which is long before `DUE`."""
    await store.ensure_repository(WIDGETS)
    run = make_run()
    results = [("a", Conclusion.PASSED), ("b", Conclusion.FAILED)]
    await store.write_results(WIDGETS, {run: make_executions(run, results, DUE - YEAR)})


async def begin_at_its_time(daily: DailyPrune, store: Store, clock: Clock) -> PruneRun:
    """Look before the time, when no run begins, and at that time; return the run."""
    await daily.look()
    assert await store.get_prune_run() is None
    clock.now = DUE
    await daily.look()
    run = await store.get_prune_run()
    assert run is not None
    return run


async def test_the_store_is_pruned_at_its_time(store: Store, clock: Clock) -> None:
    await write_old_results(store)
    daily = DailyPrune(store, AT, clock=clock)
    run = await begin_at_its_time(daily, store, clock)
    assert (run.began_at, run.events, run.executions) == (DUE, 0, 2)
    assert run.ended_at is not None
    assert (await store.get_status(NOON)).executions == 0
    clock.now = DUE + timedelta(hours=20)
    await daily.look()
    assert await store.get_prune_run() == run


async def test_a_clock_that_was_ahead_at_the_start_puts_no_run_off(
    store: Store, clock: Clock
) -> None:
    clock.now = DUE + YEAR
    daily = DailyPrune(store, AT, clock=clock)
    clock.now = DUE - timedelta(hours=1)
    run = await begin_at_its_time(daily, store, clock)
    assert run.began_at == DUE


async def test_one_of_several_processes_prunes(store: Store, clock: Clock, tmp_path: Path) -> None:
    started = tmp_path / "started"
    counting = (sys.executable, "-c", f"open({str(started)!r}, 'a').write('x')")
    others = [DailyPrune(store, AT, clock=clock, command=counting) for _ in range(5)]
    clock.now = DUE
    await asyncio.gather(*(daily.look() for daily in others))
    for daily in others:
        await daily.look()
    assert started.read_text() == "x"


async def test_the_end_of_the_service_ends_its_run_and_another_takes_it_up(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    await write_old_results(store)
    begins = tmp_path / "begins"
    os.mkfifo(begins)
    hanging = f"import time; open({str(begins)!r}, 'w').close(); time.sleep(1_000)"
    first, second = (
        DailyPrune(store, AT, clock=clock, command=(sys.executable, "-c", hanging)),
        DailyPrune(store, AT, clock=clock),
    )
    clock.now = DUE
    running = asyncio.create_task(first.run())
    await asyncio.to_thread(begins.read_text)
    begun = await store.get_prune_run()
    assert begun is not None
    await second.look()
    assert await store.get_prune_run() == begun
    running.cancel()
    await asyncio.wait([running], timeout=TIMEOUT)
    assert running.cancelled()
    assert await store.get_prune_run() == begun.stopped()
    await second.look()
    ended = await store.get_prune_run()
    assert ended is not None
    assert (ended.id != begun.id, ended.executions) == (True, 2)


async def test_a_run_that_ignores_its_end_is_killed(
    store: Store, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily_prune, "STOP_SECONDS", 0.1)
    begins = tmp_path / "begins"
    os.mkfifo(begins)
    deaf = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f" open({str(begins)!r}, 'w').write(str(os.getpid())); time.sleep(1_000)"
    )
    clock.now = DUE
    daily = DailyPrune(store, AT, clock=clock, command=(sys.executable, "-c", deaf))
    running = asyncio.create_task(daily.run())
    pid = int(await asyncio.to_thread(begins.read_text))
    running.cancel()
    await asyncio.wait([running], timeout=TIMEOUT)
    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_service_that_ends_while_it_records_a_run_blocks_no_other_process(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_record = asyncio.Event(), asyncio.Event()
    record = store.replace_prune_run

    async def record_slowly(seen: PruneRun | None, run: PruneRun) -> bool:
        begun.set()
        await may_record.wait()
        return await record(seen, run)

    monkeypatch.setattr(store, "replace_prune_run", record_slowly)
    daily = DailyPrune(store, AT, clock=clock)
    clock.now = DUE
    running = asyncio.create_task(daily.run())
    await begun.wait()
    running.cancel()
    # The cancellation arrives before the store answers.
    await asyncio.sleep(0)
    may_record.set()
    await asyncio.wait([running], timeout=TIMEOUT)
    assert running.cancelled()
    run = await store.get_prune_run()
    assert run is not None
    assert run == run.stopped()


async def test_a_run_whose_process_was_killed_is_resumed_within_an_hour(
    store: Store, clock: Clock
) -> None:
    # As a machine without power leaves it.
    killed = PruneRun("gone", began_at=DUE, alive_at=DUE)
    assert await store.replace_prune_run(None, killed)
    daily = DailyPrune(store, AT, clock=clock)
    clock.now = DUE + timedelta(minutes=1)
    await daily.look()
    assert await store.get_prune_run() == killed
    clock.now = DUE + ABANDONED_AFTER
    await daily.look()
    run = await store.get_prune_run()
    assert run is not None
    assert run.began_at == clock.now
    assert run.ended_at is not None


async def test_a_run_that_fails_is_not_repeated_at_once(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    daily = DailyPrune(store, AT, clock=clock, command=FAILING)
    clock.now = DUE
    await daily.look()
    failed = await store.get_prune_run()
    assert failed is not None
    assert failed.ended_at is None
    assert "no room" in [vars(record).get("reason") for record in caplog.records]
    clock.now = DUE + timedelta(minutes=5)
    await daily.look()
    assert await store.get_prune_run() == failed


async def test_of_a_long_reason_the_end_is_logged(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a traceback says what happened."""
    failing = (sys.executable, "-c", "raise SystemExit('x' * 30_000 + ' no room')")
    clock.now = DUE
    await DailyPrune(store, AT, clock=clock, command=failing).look()
    (reason,) = [each for record in caplog.records if (each := vars(record).get("reason"))]
    assert reason.endswith("x no room")
    assert len(reason) < 10_000


@pytest.mark.parametrize("warning", ["", "a test cannot be judged"])
async def test_warnings_of_a_run_are_logged(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, warning: str
) -> None:
    caplog.set_level(logging.INFO, logger=daily_prune.__name__)
    writing = (sys.executable, "-c", f"import sys; sys.stderr.write({warning!r})")
    daily = DailyPrune(store, AT, clock=clock, command=writing)
    clock.now = DUE
    await daily.look()
    lines = [each for each in caplog.records if each.name == daily_prune.__name__]
    told = [(each.getMessage(), vars(each).get("warnings")) for each in lines]
    warned = [("prune warned", warning)] if warning else []
    assert told == [("prune began", None), ("prune ended", None), *warned]


async def test_a_process_goes_on_after_an_unexpected_error(
    store: Store,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(daily_prune, "LOOK_SECONDS", 0.001)
    looked = asyncio.Queue[None]()

    async def fail() -> PruneRun | None:
        looked.put_nowait(None)
        raise ArithmeticError("a mistake")

    monkeypatch.setattr(store, "get_prune_run", fail)
    running = asyncio.create_task(DailyPrune(store, AT, clock=clock).run())
    async with asyncio.timeout(TIMEOUT):
        for _ in range(2):
            await looked.get()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert "unhandled error in the daily prune" in caplog.text
    assert "a mistake" in caplog.text


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_the_service_prunes_and_ends_cleanly(
    store: Store, start: Start, workers: str
) -> None:
    await write_old_results(store)
    # A run of a service that was stopped: it is taken up without waiting for the time of day.
    stopped = PruneRun("stopped", began_at=NOON, alive_at=None)
    assert await store.replace_prune_run(None, stopped)
    service = start(MERGEWATCH_WORKERS=workers, MERGEWATCH_PRUNE_AT="03:17")
    await asyncio.to_thread(service.next_line, "prune began")
    await asyncio.to_thread(service.next_line, "prune ended")
    run = await store.get_prune_run()
    assert run is not None
    assert (run.ended_at is not None, run.executions) == (True, 2)
    assert await asyncio.to_thread(service.stop) == 0


async def test_a_terminated_service_leaves_no_child_process(store: Store, start: Start) -> None:
    stopped = PruneRun("stopped", began_at=NOON, alive_at=None)
    assert await store.replace_prune_run(None, stopped)
    service = start(MERGEWATCH_PRUNE_AT="03:17")
    line = await asyncio.to_thread(service.next_line, "prune began")
    # It cannot end by itself before the service is told to.
    os.kill(line["pid"], signal.SIGSTOP)
    assert await asyncio.to_thread(service.stop) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(line["pid"], 0)
    run = await store.get_prune_run()
    assert run is not None
    assert (run.alive_at, run.ended_at) == (None, None)
