"""The supervisor replaces workers that die, and ends the service only if none can start."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import pytest

from indexing.errors import MergewatchError
from service.server import supervisor
from tests.service.processes import TIMEOUT

# Long enough for many starts that fail, each of which takes a few milliseconds.
WINDOW: Final = 2.0

# PR_SET_CHILD_SUBREAPER, see prctl(2).
_ADOPT_ORPHANS: Final = 36

_context = multiprocessing.get_context("fork")


def serve_one_of_two(deaths: int, first_pause: float) -> None:
    """Supervise a worker that runs well, and one that dies once the other is known to.

    No replacement can start. Each death writes a byte to `deaths`.
    """
    supervisor.DEATHS_WINDOW_SECONDS = WINDOW  # type: ignore[misc]
    supervisor.FIRST_PAUSE_SECONDS = first_pause  # type: ignore[misc]
    supervisor.LONGEST_PAUSE_SECONDS = max(first_pause, 0.05)  # type: ignore[misc]
    died = False

    def run(lifeline: int, number: int) -> None:
        if number == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            select.select([lifeline], [], [])
        elif died:
            raise MergewatchError("the store refuses connections")
        else:
            # Not hoping: the other worker was started earlier, so it has run for longer than this.
            time.sleep(1.1 * WINDOW)
            os.kill(os.getpid(), signal.SIGKILL)

    def on_death(_: int) -> None:
        nonlocal died
        died = True
        os.write(deaths, b"x")

    supervisor.supervise(2, run, on_death=on_death)


@contextmanager
def running(serve: Callable[..., None], *arguments: Any) -> Iterator[tuple[BaseProcess, int]]:
    """Yield the process of a supervisor, and where to read its deaths."""
    deaths, written = os.pipe()
    process = _context.Process(target=serve, args=(written, *arguments))
    process.start()
    os.close(written)
    try:
        yield process, deaths
    finally:
        os.close(deaths)
        # Its workers see that it has ended.
        process.kill()
        process.join(TIMEOUT)


def stop(process: BaseProcess) -> int | None:
    """Tell the supervisor to stop; return its exit status."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(TIMEOUT)
    return process.exitcode


def read_deaths(deaths: int, number: int) -> int:
    """Wait for so many deaths; return how many there were before the supervisor ended."""
    return sum(len(os.read(deaths, 1)) for _ in range(number))


@pytest.mark.slow
def test_a_replacement_that_cannot_start_ends_no_worker_that_runs_well() -> None:
    number = 2 * supervisor.MAX_DEATHS
    with running(serve_one_of_two, 0.001) as (process, deaths):
        assert read_deaths(deaths, number) == number
        assert stop(process) == 0


@pytest.mark.slow
def test_a_stop_signal_is_taken_during_the_pause_before_a_start() -> None:
    with running(serve_one_of_two, 100 * TIMEOUT) as (process, deaths):
        # The pause comes after the first replacement has died.
        assert read_deaths(deaths, 2) == 2
        assert stop(process) == 0


def serve_without_processes(deaths: int, failures: int, count: int) -> None:
    """Supervise a worker that runs well and, of two, one that cannot be forked any more.

    The first worker writes a byte to `deaths` once it runs, and each failed fork another one.
    """
    supervisor.FIRST_PAUSE_SECONDS = 0.001  # type: ignore[misc]
    fork = os.fork

    def fail() -> int:
        nonlocal failures
        failures -= 1
        if failures < 0:
            return fork()
        os.write(deaths, b"x")
        raise BlockingIOError("no process is left")

    def run(lifeline: int, number: int) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        os.write(deaths, b"x")
        select.select([lifeline], [], [])

    def fork_one() -> int:
        os.fork = fail
        return fork()

    os.fork = fork_one if count == 2 else fail
    supervisor.supervise(count, run)


@pytest.mark.slow
def test_a_worker_that_cannot_be_forked_is_tried_again_while_others_run() -> None:
    failures = 2 * supervisor.MAX_DEATHS
    with running(serve_without_processes, failures, 2) as (process, deaths):
        # Both workers run in the end.
        assert read_deaths(deaths, failures + 2) == failures + 2
        assert stop(process) == 0


@pytest.mark.slow
def test_the_service_ends_if_no_worker_can_be_forked() -> None:
    with running(serve_without_processes, 100, 1) as (process, deaths):
        process.join(TIMEOUT)
        assert process.exitcode == 1
        assert len(os.read(deaths, 100)) == 1


def serve_as_process_1(deaths: int) -> None:
    """Supervise a worker that dies and leaves a child behind, which then ends.

    As process 1 of a container does, the supervisor adopts such orphans. The worker writes the id
    of the child to `deaths`, and its replacement another byte.
    """
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    is_first = True

    def run(lifeline: int, number: int) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if not is_first:
            os.write(deaths, b"x")
            select.select([lifeline], [], [])
            return
        child = os.fork()
        if child:
            os.write(deaths, struct.pack("i", child))
            os.kill(os.getpid(), signal.SIGKILL)
        select.select([lifeline], [], [], TIMEOUT)

    def on_death(_: int) -> None:
        nonlocal is_first
        is_first = False

    supervisor.supervise(1, run, on_death=on_death)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets any process adopt orphans")
def test_orphans_of_a_dead_worker_leave_no_zombies() -> None:
    with running(serve_as_process_1) as (process, deaths):
        (orphan,) = struct.unpack("i", os.read(deaths, 4))
        assert os.read(deaths, 1) == b"x"
        os.kill(orphan, signal.SIGKILL)
        # It stays a zombie until somebody takes note of its end.
        deadline = time.monotonic() + TIMEOUT
        while Path(f"/proc/{orphan}").exists():
            assert time.monotonic() < deadline, "a zombie is left"
            time.sleep(0.01)
        assert stop(process) == 0


def test_the_pause_grows_with_each_start_that_fails_and_ends_with_a_success() -> None:
    settled, failed = supervisor._Running(0, 0.0), supervisor._Running(1, 1_000.0)
    restarts = supervisor._Restarts()
    now, pauses = 1_001.0, list[float]()
    for dead in (settled, *[failed] * 8, settled, failed):
        restarts.note_death(dead, [settled], now)
        pauses.append(restarts.next_at - now)
    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30, 30, 0, 1]


def test_deaths_beside_a_worker_that_runs_well_do_not_count_once_it_has_died() -> None:
    settled, failed = supervisor._Running(0, 0.0), supervisor._Running(1, 1_000.0)
    restarts = supervisor._Restarts()
    for _ in range(2 * supervisor.MAX_DEATHS):
        restarts.note_death(failed, [settled], 1_001.0)
    for _ in range(supervisor.MAX_DEATHS - 1):
        restarts.note_death(failed, [], 1_002.0)
    with pytest.raises(supervisor.WorkersDieError):
        restarts.note_death(failed, [], 1_003.0)
