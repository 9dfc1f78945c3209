"""The process of a server: its log, the signals it is sent, and its end with ours at the latest.

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

# Long enough for the slowest machine; only what is broken waits for it.
DEADLINE: Final = 180.0
POLL: Final = 0.05
TAIL_LINES: Final = 40

# It ends the server when its own input ends, that is when this process is gone, SIGKILL included.
# A server cannot do that itself while it is suspended.
GUARD: Final = 'read -r _; kill -KILL "$1"'


class ServerError(RuntimeError):
    """A server that ended, or did not become ready; the message ends in its log's last lines."""


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
                # Ctrl-C is for who started it, who then ends it in order.
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
        # The signal alone leaves its threads the time to answer once more.
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._reap()

    def stop(self) -> None:
        """Ask it to end, and wait until it did."""
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Ask until it is so.

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
        # The guard first: the number of a process that was waited for may be given away.
        self._guard.kill()
        self._guard.communicate()
        self._process.wait()


class Server(ABC):
    """What a test does to a server, whichever it is; it can be run again once it ended."""

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
        """A new process of it."""

    @abstractmethod
    def wait_until_ready(self) -> None:
        """Wait until it answers.

        Raises:
            ServerError: it ended instead, or took too long.
        """

    @abstractmethod
    def release(self) -> None:
        """Give its ports back."""

    def run(self) -> None:
        """Run it, and do not wait until it is ready."""
        self._process = self.launch()

    def start(self) -> Self:
        """Run it, and wait until it is ready."""
        self.run()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def suspend(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers."""
        self.process.suspend()

    def resume(self) -> None:
        self.process.resume()

    def restart(self) -> None:
        """Run it again on the same data and ports, be it ended or not."""
        if self.alive:
            self.process.stop()
        self.start()

    def stop(self) -> None:
        """End it in order, and give its ports back; what it stored stays."""
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
