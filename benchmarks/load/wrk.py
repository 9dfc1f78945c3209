"""Generates load with wrk in another process; each connection sends again once it is answered.

wrk gets the paths in a file and the key in the environment, so no command line shows them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from benchmarks.running.cores import pinned

CONNECTIONS: Final = 64

_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_INSTALL: Final = ("apt-get", "install", "--yes", "--quiet", "wrk")
# How many seconds wrk runs if nobody stops it.
_MOST_SECONDS: Final = 70
_ERRORS: Final = ("connect", "read", "write", "status", "timeout")


class LoadError(RuntimeError):
    """There was no load, or some requests failed."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The result of one period of load; latencies are in seconds."""

    requests: int
    requests_per_second: float
    p50: float
    p99: float


def ensure_wrk() -> None:
    """Install wrk if that needs no confirmation; raise `LoadError` if it is still missing."""
    if shutil.which("wrk"):
        return
    # S607: the system decides where its package manager is.
    if shutil.which(_INSTALL[0]) and os.geteuid() == 0:
        subprocess.run(_INSTALL, check=False, stdout=subprocess.DEVNULL)  # noqa: S603
    if not shutil.which("wrk"):
        raise LoadError(f"wrk is missing; install it: {' '.join(_INSTALL)}, or brew install wrk")


def put_load(
    address: str,
    paths: Iterable[str],
    key: str,
    *,
    seconds: float,
    cores: frozenset[int],
    connections: int = CONNECTIONS,
) -> Slice:
    """Request the paths in turn for that time.

    Raises:
        LoadError: a request failed or got no answer.
    """
    with under_load(address, paths, key, cores=cores, connections=connections) as load:
        return load.finish_after(seconds)


@contextmanager
def under_load(
    address: str,
    paths: Iterable[str],
    key: str,
    *,
    cores: frozenset[int],
    connections: int = CONNECTIONS,
) -> Iterator[Load]:
    """Request the paths in turn until the context exits."""
    with tempfile.NamedTemporaryFile("w", suffix=".paths") as file:
        file.writelines(f"{path}\n" for path in paths)
        file.flush()
        options = (f"-t1 -c{connections} -d{_MOST_SECONDS}s -s").split()
        with pinned(cores):
            process = subprocess.Popen(  # noqa: S603
                ["wrk", *options, _SCRIPT, address, file.name],  # noqa: S607
                env={**os.environ, "BENCH_KEY": key},
                stdout=subprocess.PIPE,
                text=True,
            )
        try:
            yield Load(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


class Load:
    """A load in progress."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def finish_after(self, seconds: float) -> Slice:
        """Let it run for that time, then stop it; return its result."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            # wrk accepts only whole seconds; on SIGINT, it prints its summary.
            self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate()
        return read_summary(output)


def read_summary(output: str) -> Slice:
    """Parse the last output of `wrk.lua`. Pure.

    Raises:
        LoadError: there is no summary, it counts errors, or it has no request at all.
    """
    lines = output.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise LoadError(f"wrk did not sum up: {output.strip() or 'it printed nothing'}")
    found = orjson.loads(lines[-1])
    errors = {name: found[name] for name in _ERRORS if found[name]}
    if errors:
        raise LoadError(f"{found['requests']} requests, errors: {errors}")
    return Slice(
        requests=found["requests"],
        requests_per_second=found["requests"] / found["microseconds"] * 1e6,
        p50=found["p50"] / 1e6,
        p99=found["p99"] / 1e6,
    )
