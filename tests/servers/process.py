"""The process of a server: its log, signals, and its end, which is at the latest that of the tests.

Every call blocks: within an event loop that has other work, use `asyncio.to_thread`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# Long enough for the slowest machine; only a broken server takes that long.
DEADLINE: Final = 180.0
POLL: Final = 0.05
TAIL_LINES: Final = 40

# The guard ends the server when the guard's own input ends, that is when this process is gone, also
# by SIGKILL. The server cannot do that itself while it is suspended.
GUARD: Final = 'read -r _; kill -KILL "$1"'


class ServerError(RuntimeError):
    """A server ended or did not become ready; the message ends with the last lines of its log."""


class ServerProcess:
    """A command that runs from construction until `stop` or `kill`."""

    def __init__(self, command: Sequence[str | Path], folder: Path, log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C goes to the parent, which then stops the server gracefully.
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def suspend(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        # After the signal alone, its threads would still have time to send a response.
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._reap()

    def stop(self) -> None:
        """Stop it gracefully, and wait until it has ended."""
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Poll until the condition holds.

        Raises:
            ServerError: the process ended first, or the deadline passed.
        """
        deadline = time.monotonic() + DEADLINE
        while not ready():
            if self._process.poll() is not None:
                raise ServerError(f"{what}: ended with {self._process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"{what}: not ready within {DEADLINE:.0f} s\n{self.tail()}")
            time.sleep(POLL)

    def tail(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _reap(self) -> None:
        # The guard first: the system may reuse the process id once a process has been waited for.
        self._guard.kill()
        self._guard.communicate()
        self._process.wait()


class Server(ABC):
    """The operations that tests need of any server; it can be restarted after it ended."""

    def __init__(self) -> None:
        self._process: ServerProcess | None = None

    @property
    def process(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @abstractmethod
    def launch(self) -> ServerProcess:
        """Start a new process of the server."""

    @abstractmethod
    def wait_until_ready(self) -> None:
        """Wait until it responds.

        Raises:
            ServerError: it ended, or took too long.
        """

    @abstractmethod
    def release(self) -> None:
        """Release its ports."""

    def run(self) -> None:
        """Start it without waiting until it is ready."""
        self._process = self.launch()

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        self.run()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def suspend(self) -> None:
        """Send SIGSTOP: its connections stay open, and nothing responds."""
        self.process.suspend()

    def resume(self) -> None:
        self.process.resume()

    def restart(self) -> None:
        """Restart it on the same data and ports, whether it still runs or not."""
        if self.alive:
            self.process.stop()
        self.start()

    def stop(self) -> None:
        """Stop it gracefully and release its ports; its data stays."""
        if self.alive:
            self.process.stop()
        self.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
