"""Rebuilds what is derived in several processes: one that writes, and others that compute.

A process computes some tests from their executions and sends back the rows that have to change.
They are written if no other process has marked or refreshed these tests since the rebuild marked
them. All other tests, and those of a process that has died, are refreshed as after a load.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Final

from indexing.child_processes import with_python_path
from indexing.started_tasks import started
from indexing.store.interface import Steps
from indexing.store.sqlite.connections import Connections
from indexing.store.sqlite.maintenance import mark_all
from indexing.store.sqlite.pace import TRANSACTION_SECONDS
from indexing.store.sqlite.refresh import write_computed
from indexing.store.sqlite.refreshed_rows import RefreshedRows
from indexing.store.sqlite.refreshing import refresh_in_steps
from indexing.store.sqlite.search.name_rebuild import NameRebuild

# Up to this many tests are computed sooner than processes start.
_FEW_TESTS: Final = 2_000
_TESTS_A_STEP: Final = 200
# Some 26 MB in the write-ahead log.
_ROWS_BETWEEN_PAUSES: Final = 80_000
# More processes would wait for the one that writes.
_MOST_PROCESSES: Final = 4

_log = logging.getLogger(__name__)

Computed = Sequence[tuple[int, RefreshedRows]]


async def rebuild_in_steps(connections: Connections, now: datetime, progress: Steps | None) -> int:
    """Rebuild the whole store; return the number of its tests."""
    count, mark = await connections.write(mark_all)
    # While other processes compute tests.
    async with started(_rebuild_names(connections, mark)) as names:
        await _judge_all(connections, now, progress, count, mark)
        await names
    return count


async def _rebuild_names(connections: Connections, mark: int) -> None:
    names = NameRebuild(mark)
    await connections.write(names.begin)
    while await connections.write(names.write_some):
        pass


async def _judge_all(
    connections: Connections, now: datetime, progress: Steps | None, count: int, mark: int
) -> None:
    """Compute all tests, `count` of which have that mark."""
    done = 0
    if count > _FEW_TESTS and _count_processors() > 1 and os.name == "posix":
        rebuild = _ParallelRebuild(connections, now, progress, mark)
        await rebuild.run(min(_count_processors(), _MOST_PROCESSES))
        done = rebuild.total
    rest = None if progress is None else lambda steps: progress(done + steps)
    await refresh_in_steps(connections, now, rest, None, None)


class ProcessDiedError(Exception):
    """A process of the rebuild cannot start, or has ended before its work."""


class _ParallelRebuild:
    """The part of a rebuild that other processes compute; `total` is how many tests are written."""

    def __init__(
        self,
        connections: Connections,
        now: datetime,
        progress: Steps | None,
        mark: int,
    ) -> None:
        self.total = 0
        self._connections = connections
        self._now = now
        self._progress = progress
        self._mark = mark
        self._last = 0
        self._taking = asyncio.Lock()
        self._computing = 0
        self._none_computing = asyncio.Event()
        self._rows = 0

    async def run(self, processes: int) -> None:
        tasks = [asyncio.create_task(self._work()) for _ in range(processes)]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        """Let one process compute, step by step, until nothing is left or it dies."""
        with ExitStack() as started:
            try:
                process = started.enter_context(_started(self._connections.path, self._now))
                while tests := await self._take():
                    await self._write(await self._compute(process, tests))
            except ProcessDiedError as error:
                _log.warning("a process of the rebuild died, and its tests take longer: %s", error)

    async def _compute(self, process: _Process, tests: Sequence[int]) -> Computed:
        try:
            return await process.compute(tests, self._mark)
        finally:
            self._computing -= 1
            if not self._computing:
                self._none_computing.set()

    async def _write(self, computed: Computed) -> None:
        self._rows += sum(len(rows) for _, rows in computed)
        if self._rows < _ROWS_BETWEEN_PAUSES:
            await self._write_all(computed)
            return
        # Meanwhile no process has an older snapshot in use, so SQLite can begin the write-ahead log
        # again. Otherwise the log would grow for the whole rebuild.
        async with self._taking:
            await self._none_computing.wait()
            self._rows = 0
            await self._write_all(computed)

    async def _write_all(self, computed: Computed) -> None:
        while computed:
            write = partial(
                write_computed, computed=computed, mark=self._mark, seconds=TRANSACTION_SECONDS
            )
            done, written = await self._connections.write(write)
            computed = computed[done:]
            self.total += written
            if self._progress is not None and written:
                self._progress(self.total)

    async def _take(self) -> list[int]:
        """Return the next tests that no process computes yet."""
        async with self._taking:
            read = partial(_read_marked, mark=self._mark, last=self._last)
            tests = await self._connections.read(read)
            if tests:
                self._last = tests[-1]
                self._computing += 1
                self._none_computing.clear()
            return tests


class _Process:
    """A process that computes tests; see `rebuild_process`."""

    def __init__(self, connection: socket.socket, answers: BufferedReader) -> None:
        self._connection = connection
        self._answers = answers

    async def compute(self, tests: Sequence[int], mark: int) -> Computed:
        """Return the rows of the tests that have to change.

        Raises:
            ProcessDiedError: the process has ended.
        """
        try:
            return await asyncio.to_thread(self._exchange, tests, mark)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise ProcessDiedError("it has ended") from error

    def _exchange(self, tests: Sequence[int], mark: int) -> Computed:
        self._connection.sendall(pickle.dumps((tests, mark)))
        computed: Computed = pickle.load(self._answers)  # noqa: S301 - of our own process
        return computed


@contextmanager
def _started(path: Path, now: datetime) -> Iterator[_Process]:
    """Start a process that reads the file; it ends with the context.

    Raises:
        ProcessDiedError: the system cannot start one.
    """
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as answers:
        with theirs:
            process = _start(path, now, theirs.fileno())
        with process:
            try:
                yield _Process(ours, answers)
            finally:
                # It only reads, and whoever waits for its answer goes on.
                process.kill()


def _start(path: Path, now: datetime, descriptor: int) -> subprocess.Popen[bytes]:
    arguments = (str(path), now.isoformat(), str(descriptor))
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            # Without modules of the current folder, which may be of another release.
            [sys.executable, "-P", "-m", "indexing.store.sqlite.rebuild_process", *arguments],
            env=with_python_path(os.environ),
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for the command, which ends its processes itself.
            start_new_session=True,
        )
    except OSError as error:
        raise ProcessDiedError(f"cannot start: {error.strerror}") from error


def _read_marked(connection: sqlite3.Connection, mark: int, last: int) -> list[int]:
    found = connection.execute(
        "SELECT test FROM stale_tests WHERE recompute = ? AND test > ? ORDER BY test LIMIT ?",
        (mark, last, _TESTS_A_STEP),
    )
    return [test for (test,) in found]


def _count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
