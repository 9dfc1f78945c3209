"""Automatic retention: one worker of all replicas prunes the store once a day.

The work is done by a child process with a low priority, so that no request waits for it. Every
process reads the record of the last run. The process that replaces it starts the next run.
`indexing.pruning` has the rules.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, time
from typing import Final

from indexing.child_processes import with_python_path
from indexing.clocks import Clock, utc_now
from indexing.errors import MergewatchError
from indexing.pruning import NextStep, PruneRun, find_due, next_step
from indexing.store import recorded_prune
from indexing.store.interface import Store

# How often a process checks whether a run is due.
LOOK_SECONDS: Final = 60.0
# How long a child process has to end: it may commit a transaction first. With the time to record
# that, this is less than `TASKS_SECONDS` of `service.server.process`.
STOP_SECONDS: Final = 1.5
RECORD_SECONDS: Final = 1.0

# Enough for some warnings with their tracebacks.
_LOGGED_BYTES: Final = 8_000
# `-P`: without modules of the current folder, which anybody may have put there.
_COMMAND: Final = (sys.executable, "-P", "-c", "from service.cli import main; main()")

_log = logging.getLogger(__name__)


class DailyPrune:
    """Starts the runs from one process; `command` is the command line of the program."""

    def __init__(
        self,
        store: Store,
        at: time,
        *,
        clock: Clock = utc_now,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        self._store = store
        self._at = at
        self._clock = clock
        self._command = command
        self._watching_since = clock()
        self._rested: datetime | None = None

    async def run(self) -> None:
        """Prune daily until cancelled; then end the run that this process has in progress."""
        while True:
            try:
                await self.look()
            except (MergewatchError, OSError) as error:
                _log.warning("daily prune cannot begin", extra={"reason": str(error)})
            except Exception:  # noqa: BLE001 - a process has to go on looking
                _log.exception("unhandled error in the daily prune")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Prune if a run is due and no other process has taken it."""
        now = self._clock()
        # A clock that was ahead at the start may have been put back.
        self._watching_since = min(self._watching_since, now)
        due = find_due(self._at, now)
        if due == self._rested:
            return
        last = await self._store.get_prune_run()
        step = next_step(last, due, now, self._watching_since)
        if step is NextStep.REST:
            self._rested = due
        elif step is NextStep.BEGIN:
            run = recorded_prune.new_run(now)
            recording = asyncio.create_task(self._store.replace_prune_run(last, run))
            try:
                # Shielded, because a write that is cancelled may still be done.
                if await asyncio.shield(recording):
                    await self._prune(run)
            except asyncio.CancelledError:
                await self._give_up(run, recording)
                raise

    async def _prune(self, run: PruneRun) -> None:
        process = await self._start(run)
        _log.info("prune began", extra={"pid": process.pid})
        try:
            written = await _wait_for_end(process)
        except asyncio.CancelledError:
            await _end(process)
            raise
        if process.returncode:
            # The record stays as if the run had been killed: it is repeated later, not at once.
            _log.error("prune failed", extra={"exit_code": process.returncode, "reason": written})
        else:
            _log.info("prune ended")
            if written:
                _log.warning("prune warned", extra={"warnings": written})

    async def _start(self, run: PruneRun) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            "index",
            "prune",
            "--run",
            run.id,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env=with_python_path(os.environ),
            # Ctrl-C is for the service, which ends its child process itself.
            start_new_session=True,
        )

    async def _give_up(self, run: PruneRun, recording: asyncio.Task[bool]) -> None:
        """Record that the run stopped, so that another process can take it over at once.

        `recording` is the write of the run, which may still be in progress.
        """
        with suppress(MergewatchError, TimeoutError):
            async with asyncio.timeout(RECORD_SECONDS):
                if await recording:
                    await recorded_prune.change_run(self._store, run.id, PruneRun.stopped)


async def _wait_for_end(process: Process) -> str:
    """Wait until the process ends; return the last part of its standard error."""
    written = b""
    while process.stderr is not None and (chunk := await process.stderr.read(_LOGGED_BYTES)):
        written = (written + chunk)[-_LOGGED_BYTES:]
    await process.wait()
    return written.decode(errors="replace").strip()


async def _end(process: Process) -> None:
    """End a process, which may be killed at any time."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
