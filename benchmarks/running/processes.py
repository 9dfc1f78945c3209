"""Starts what is measured as processes of their own, waits until they answer, ends them."""

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
    """A process ended or stayed silent; the text has the end of its log."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one server: what to run, with which environment, and what shows it is there."""

    command: tuple[str, ...]
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers; `pid` is `None` for one that was not started here."""

    port: int
    pid: int | None

    @property
    def address(self) -> str:
        """What its paths follow."""
        return f"http://{HOST}:{self.port}"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(launch: Launch, port: int, log: Path, cores: frozenset[int]) -> Iterator[Running]:
    """Have the server run for as long as the block does.

    Raises:
        StartError: it does not come to answer.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # What the caller's shell says of the service is not for the one that is measured.
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
        # Its workers are in its session, and nobody else is.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
