"""Connections to the SQLite file, and where each piece of work runs.

A quick read runs on the event loop's own connection, because handing it to a thread costs more than
the read. It has a budget: a read that exceeds it is interrupted and repeated in a thread, so that
it does not block the loop. Writes share one thread with the only writing connection, in a fair
queue of tenants.

The work itself is plain functions over a connection, which do not catch errors of the driver.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from indexing.errors import StoreUnavailableError
from indexing.fairness import FairSemaphore, acquire_within, current_tenant
from indexing.store.pace import Pace
from indexing.store.sqlite.driver_errors import make_folder_of, translated_errors
from indexing.store.sqlite.own_writes import OwnWrites, end_snapshot
from indexing.store.sqlite.repositories import InterruptibleConnection, ReadingConnection
from indexing.store.sqlite.schema import ensure_schema, require_version
from indexing.store.sqlite.search.rows import add_functions
from indexing.store.sqlite.slow_read import ReadInterruptedError, SlowRead, Work
from indexing.store.sqlite.write_turns import WriteTurns

C = TypeVar("C", bound=sqlite3.Connection)
T = TypeVar("T")
R = TypeVar("R")

# The budget of a read on the event loop. It counts steps of SQLite's virtual machine, so a busy
# machine does not change the outcome. SQLite runs about 10 million steps a second; a page of 100
# events takes about 3,000. Each statement counts as 100 more. The limit in seconds is for expensive
# steps: a single one may match a name against a glob.
INLINE_STEPS: Final = 20_000
INLINE_SECONDS: Final = 0.01
# The budget of a first attempt with `briefly`: it either finishes soon or is not worth going on.
BRIEF_STEPS: Final = 2_000
_STEPS_PER_CHECK: Final = 100

# The time limit of a slow read. After it, the client has probably given up, and the read would only
# delay the next one. A full scan of a million names takes a tenth of this.
SLOW_READ_SECONDS: Final = 5.0

# The threads for slow reads. The smallest supported machine has two cores; a slow read uses one.
SLOW_READERS: Final = 2
# How many slow reads may run or wait for a thread, of all tenants and of one. Some wait, so that no
# thread is idle while the event loop is busy. All further reads wait in a fair queue of tenants.
SLOW_READS_AT_ONCE: Final = 2 * SLOW_READERS
SLOW_READS_PER_TENANT: Final = SLOW_READERS + 1
# The niceness of slow reads: on a shared core, they get a tenth of the event loop's share.
SLOW_NICENESS: Final = 10

# A connection's page cache: it holds the upper pages of the indexes of a store of a million tests,
# which each search reads. With SQLite's default of 2 MiB, each search would read them from the
# file. A memory map would be faster still, but kills the process if the file is truncated.
PAGE_CACHE_KIB: Final = 32 * 1024

# How long a writer waits for another process's transaction; those last seconds at most.
WRITER_BUSY_SECONDS: Final = 60
READER_BUSY_SECONDS: Final = 1


class Connections:
    """The connections of one process to one file.

    Create, use and close them on one event loop.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._quick = _QuickReads(path)
        self._file = self._quick.file
        self._own_writes = OwnWrites(
            self._quick.connection,
            WriteTurns(WRITER_BUSY_SECONDS),
            partial(translated_errors, path),
        )
        # A function: see `OwnWrites.revision`. Bound here because every cached read calls it.
        self.revision = self._own_writes.revision
        self._loop_slots = FairSemaphore(1)
        self._slow_slots = FairSemaphore(SLOW_READS_AT_ONCE, SLOW_READS_PER_TENANT)
        self._write_slots = FairSemaphore(1)
        self._slow = ThreadPoolExecutor(SLOW_READERS, "sqlite-reader", _give_way)
        self._writing = ThreadPoolExecutor(1, "sqlite-writer")
        self._of_thread = threading.local()
        self._opened: list[sqlite3.Connection] = [self._quick.connection]
        self._slow_reads: set[SlowRead[Any]] = set()

    @classmethod
    def open(cls, path: Path) -> Connections:
        """Open the file; create it if it is missing, migrate it if it has an older version.

        Raises:
            StoreError: the file cannot be used; the text says why.
        """
        make_folder_of(path)
        with translated_errors(path):
            # The file holds the secret that signs cursors, so only its owner may read it.
            path.touch(mode=0o600)
            connection = connect(path, WRITER_BUSY_SECONDS, sqlite3.Connection)
            try:
                ensure_schema(connection)
                _OpenedFile.of(path, connection).check()
            finally:
                connection.close()
            return cls(path)

    async def read(self, work: Work[T]) -> T:
        """Run a read on the event loop; repeat it in a thread if it exceeds the budget."""
        try:
            return self._quick.run(work, INLINE_STEPS)
        except ReadInterruptedError:
            pass
        return await self.read_slowly(work)

    async def read_by_plans(
        self, plans: Sequence[Work[T | None]], last: Work[T], *, briefly: bool = False
    ) -> T:
        """Try each plan for the same result on the event loop, then run the last one in a thread.

        A plan that does not apply returns None. With `briefly`, the first plan gets a small budget:
        use it for a plan that is either fast or useless.
        """
        first, *others = (*plans, last)
        result = self._quick.attempt(first, BRIEF_STEPS if briefly else INLINE_STEPS)
        if result is not None:
            return result
        for plan in others:
            # These attempts run one at a time, with quick reads in between, so that many searches
            # at once do not delay other requests.
            async with self._loop_slots.slot(current_tenant.get()):
                result = self._quick.attempt(plan, INLINE_STEPS)
                if result is not None:
                    return result
                await asyncio.sleep(0)
        return await self.read_slowly(last)

    async def read_slowly(self, work: Work[T]) -> T:
        """Run a read that is known to be long in a thread, until the caller stops waiting."""
        read = SlowRead(work)
        self._slow_reads.add(read)
        timer = asyncio.get_running_loop().call_later(SLOW_READ_SECONDS, read.interrupt)
        try:
            async with acquire_within(
                SLOW_READ_SECONDS, self._slow_slots.slot(current_tenant.get())
            ):
                # The store may have been closed while this read waited.
                if read.is_interrupted:
                    raise ReadInterruptedError
                with translated_errors(self.path):
                    return await self._in_thread(self._slow, read, READER_BUSY_SECONDS)
        except TimeoutError as error:
            raise ReadInterruptedError from error
        finally:
            timer.cancel()
            self._slow_reads.discard(read)
            # The caller may have been cancelled; for a finished read this does nothing.
            read.interrupt()

    async def read_without_limit(self, work: Work[T]) -> T:
        """Run a read in a thread without a time limit, for commands and background work."""
        with translated_errors(self.path):
            return await self._in_thread(self._slow, work, READER_BUSY_SECONDS)

    async def write(self, work: Work[T]) -> T:
        """Run one write transaction, atomically.

        Tenants take turns (round robin): a transaction waits for at most one of each other tenant.

        Raises:
            StoreVersionError: another release has upgraded the file since it was opened.
        """
        abandoned = threading.Event()

        def transaction(connection: sqlite3.Connection) -> T:
            try:
                with self._own_writes.transaction(connection, abandoned):
                    require_version(connection)
                    return work(connection)
            finally:
                if abandoned.is_set():
                    self._own_writes.disown()

        async with self._write_slots.slot(current_tenant.get()):
            with translated_errors(self.path):
                try:
                    return await self._in_thread(self._writing, transaction, WRITER_BUSY_SECONDS)
                except asyncio.CancelledError:
                    # The transaction goes on in its thread, but the caller cannot report any more
                    # what it changed.
                    abandoned.set()
                    self._own_writes.disown()
                    raise

    async def write_in_steps(self, step: Work[int]) -> int:
        """Run a step in one transaction after the other until it returns 0; return the sum."""
        total = 0
        while done := await self.write(step):
            total += done
        return total

    async def write_rows(
        self,
        rows: Sequence[R],
        write: Callable[[sqlite3.Connection, Sequence[R]], T],
        pace: Pace,
    ) -> list[T]:
        """Write rows in one or more short transactions; return the result of `write` for each."""
        results: list[T] = []
        at = 0
        while at < len(rows) or not results:
            step = rows[at : at + pace.rows]

            def work(connection: sqlite3.Connection, step: Sequence[R] = step) -> T:
                began = time.monotonic()
                result = write(connection, step)
                pace.learn(len(step), time.monotonic() - began)
                return result

            results.append(await self.write(work))
            at += len(step)
        return results

    async def close(self) -> None:
        """Interrupt slow reads, wait for running writes, then close every connection."""
        for read in tuple(self._slow_reads):
            read.interrupt()
        for pool in (self._slow, self._writing):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)
        end_snapshot(self._quick.connection)
        for connection in self._opened:
            connection.close()

    async def _in_thread(self, pool: ThreadPoolExecutor, work: Work[T], busy_seconds: float) -> T:
        def run() -> T:
            self._file.check()
            connection: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
            if connection is None:
                kind = InterruptibleConnection if pool is self._slow else sqlite3.Connection
                connection = connect(self.path, busy_seconds, kind)
                self._of_thread.connection = connection
                self._opened.append(connection)
            try:
                return work(connection)
            except sqlite3.Error as error:
                _explain(error, connection)
                raise

        return await asyncio.get_running_loop().run_in_executor(pool, run)


class _QuickReads:
    """Runs reads on the event loop's own connection, each within a budget of its own.

    All reads of one iteration of the event loop share a snapshot, because to begin one and to end
    it takes as long as a short read. It ends with a callback that is scheduled before it begins, so
    whatever the event loop learns of a later commit, it learns after that callback. Only what
    uvloop calls between two iterations may come before: it calls `OwnWrites.revision` first, which
    ends the snapshot.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.connection: ReadingConnection = connect(path, READER_BUSY_SECONDS, ReadingConnection)
        self.connection.execute("PRAGMA query_only = ON")
        self.file = _OpenedFile.of(path, self.connection)
        self._is_end_scheduled = False
        self._checks_left = 0
        self._deadline = 0.0
        # SQLite counts the steps of each statement anew, so its handler never sees a short
        # statement. `check` counts the statements instead.
        self.connection.check = self._check

    def attempt(self, plan: Work[T | None], steps: int) -> T | None:
        """Run a read; return `None` if it exceeds the budget or does not apply."""
        try:
            return self.run(plan, steps)
        except ReadInterruptedError:
            return None

    def run(self, work: Work[T], steps: int) -> T:
        """Run a read.

        Raises:
            ReadInterruptedError: it exceeds the budget.
        """
        self._checks_left = steps // _STEPS_PER_CHECK
        self._deadline = time.monotonic() + INLINE_SECONDS
        try:
            if not self.connection.in_transaction:
                self._begin()
            return work(self.connection)
        except ReadInterruptedError:
            raise
        except Exception as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise ReadInterruptedError from error
            # The next read begins a new snapshot, in case this one is of no use.
            end_snapshot(self.connection)
            with translated_errors(self._path):
                _explain(error, self.connection)
                raise

    def _begin(self) -> None:
        self.file.check()
        if not self._is_end_scheduled:
            self._is_end_scheduled = True
            asyncio.get_running_loop().call_soon(self._end_iteration)
        # The budget does not count this statement.
        sqlite3.Connection.execute(self.connection, "BEGIN")
        self.connection.set_progress_handler(self._is_spent, _STEPS_PER_CHECK)

    def _end_iteration(self) -> None:
        self._is_end_scheduled = False
        end_snapshot(self.connection)

    def _is_spent(self) -> bool:
        self._checks_left -= 1
        return self._checks_left < 0 or time.monotonic() > self._deadline

    def _check(self) -> None:
        if self._is_spent():
            raise ReadInterruptedError


def _explain(error: Exception, connection: sqlite3.Connection) -> None:
    """Raise `StoreVersionError` if another release has changed the tables that a read expects."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR:
        require_version(connection)


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """The file of an open store, to notice what other programs do to it."""

    path: Path
    page_size: int
    inode: int

    @classmethod
    def of(cls, path: Path, connection: sqlite3.Connection) -> _OpenedFile:
        """Return the file that this connection has just opened."""
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        return cls(path, page_size, path.stat().st_ino)

    def check(self) -> None:
        """Raise `StoreUnavailableError` if the file was truncated inside a page, or replaced.

        SQLite notices missing pages, but reads the missing part of a page as zeros: its rows would
        silently lose their values. A checkpoint writes whole pages. What is written to a file that
        was replaced is lost.
        """
        found = self.path.stat()
        if found.st_size % self.page_size:
            what = f"the store {self.path} was truncated inside of a page"
            raise StoreUnavailableError(f"{what}. Restore a backup")
        if found.st_ino != self.inode:
            what = f"the store {self.path} was replaced by another file while it was in use"
            raise StoreUnavailableError(f"{what}. Stop every process of it, and restore a backup")


def _give_way() -> None:
    """Lower this thread's priority below the event loop's, in case they share a core."""
    if sys.platform == "linux":
        with suppress(OSError):
            # On Linux, this call sets the priority of one thread, not of the whole process.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), SLOW_NICENESS)


def connect(path: Path, busy_seconds: float, kind: type[C]) -> C:
    """Open a connection to the file of a store; one thread at a time may use it."""
    # `check_same_thread` is off because `Connections.close` may run in another thread.
    connection = sqlite3.connect(
        path, timeout=busy_seconds, isolation_level=None, check_same_thread=False, factory=kind
    )
    with ExitStack() as on_failure:
        on_failure.callback(connection.close)
        connection.execute("PRAGMA foreign_keys = ON")
        # Acknowledged writes are on disk, even after a power loss.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
        # A hardened container may have no folder for temporary files; their content is small.
        connection.execute("PRAGMA temp_store = MEMORY")
        add_functions(connection)
        on_failure.pop_all()
    return connection
