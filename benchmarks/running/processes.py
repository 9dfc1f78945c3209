"""Starts the measured servers as processes, waits until they answer, and stops them."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.running.cores import pinned

HOST: Final = "127.0.0.1"
ROOT: Final = Path(__file__).parents[2]

_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_LOOK_EVERY: Final = 0.05
_OWN_SETTINGS: Final = "MERGEWATCH_"


class StartError(RuntimeError):
    """A process exited or did not answer; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one server: command, environment, and the path that shows it is ready."""

    command: tuple[str, ...]
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A running server; `pid` is `None` if it was not started here."""

    port: int
    pid: int | None

    @property
    def address(self) -> str:
        """Return the base URL."""
        return f"http://{HOST}:{self.port}"


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(launch: Launch, port: int, log: Path, cores: frozenset[int]) -> Iterator[Running]:
    """Run the server until the context exits.

    Raises:
        StartError: it does not get ready.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # The shell's settings for a service must not reach the measured one.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OWN_SETTINGS)}
    with log.open("wb") as output, pinned(cores):
        process = subprocess.Popen(  # noqa: S603
            launch.command,
            cwd=ROOT,
            env={**inherited, **launch.environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, port, launch.ready, log)
        yield Running(port, process.pid)
    finally:
        _end(process)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(port, path):
            return
        time.sleep(_LOOK_EVERY)
    tail = log.read_text(errors="replace")[-2_000:]
    raise StartError(f"{Path(process.args[0]).name} does not answer:\n{tail}")  # type: ignore[index, arg-type]


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # Its session holds its workers and no other process.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
