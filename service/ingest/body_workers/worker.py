"""One worker process, as the serving process sees it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Any, Final

from indexing.child_processes import with_python_path
from service.config.prefix import PREFIX
from service.ingest.body_workers.wire import (
    END,
    FRAME,
    Failure,
    Job,
    decode_batch,
    decode_end,
    encode_job,
)

# Reading the largest body takes a few seconds on an idle machine. A job that yields nothing for
# this long has failed.
FRAME_SECONDS: Final = 120.0
# An idle worker ends at once.
END_SECONDS: Final = 5.0

_PIECE_BYTES: Final = 256 * 1024


class WorkerDiedError(Exception):
    """A worker process cannot be started, or has ended during a job."""


class JobFailedError(Exception):
    """A body cannot be read."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Worker:
    """A process that does one job at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, niceness: int) -> Worker:
        """Start a process; raises `WorkerDiedError` if the system cannot start one."""
        # A worker needs no settings, and cannot leak secrets that it does not have.
        environment = with_python_path(
            {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                # Without modules of the current folder, which anybody may have put there.
                "-P",
                "-m",
                "service.ingest.body_workers.child",
                str(niceness),
                stdin=PIPE,
                stdout=PIPE,
                env=environment,
                # Ctrl-C is for the service, which ends its workers itself.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerDiedError(f"cannot start: {error.strerror}") from error
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def work(self, job: Job, body: Iterable[bytes]) -> AsyncGenerator[list[Any], None]:
        """Do the job; yield what the reader yields, in batches.

        The last batch may be empty. A caller that stops before the end has to kill the worker.

        Raises:
            WorkerDiedError: the process ended, or took too long.
            JobFailedError: the body cannot be read; the worker is ready for the next one.
        """
        try:
            await self._send(encode_job(job))
            for piece in body:
                for at in range(0, len(piece), _PIECE_BYTES):
                    await self._send(piece[at : at + _PIECE_BYTES])
            while True:
                async with asyncio.timeout(FRAME_SECONDS):
                    kind, count, size = FRAME.unpack(await self._receive(FRAME.size))
                    payload = await self._receive(size)
                if kind == END:
                    break
                yield decode_batch(count, payload)
        except (OSError, EOFError) as error:
            # A timeout is an OSError too.
            raise WorkerDiedError("exited or timed out while parsing a body") from error
        failure = decode_end(payload)
        if failure is not None:
            raise JobFailedError(failure)

    async def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._close_input()
        await self._wait()

    async def end(self) -> None:
        """End the process once it is idle, or kill it."""
        self._close_input()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._wait()
        except TimeoutError:
            await self.kill()

    async def _wait(self) -> None:
        # asyncio reports the end of a process only after its output was read to the end.
        if self._process.stdout is not None:
            while await self._process.stdout.read(_PIECE_BYTES):
                pass
        await self._process.wait()

    async def _send(self, data: bytes) -> None:
        if self._process.stdin is None:
            raise EOFError
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def _receive(self, size: int) -> bytes:
        if self._process.stdout is None:
            raise EOFError
        return await self._process.stdout.readexactly(size)

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
