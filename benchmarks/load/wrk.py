"""Load from another process, by wrk: connections that each ask as fast as they are answered.

The paths and the key go to it by a file and by the environment: no command line shows them.
"""

from __future__ import annotations

import math
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
# How much longer than asked for it may go on when nobody ends it.
_SPARE_SECONDS: Final = 10
_ERRORS: Final = ("connect", "read", "write", "status", "timeout")


class LoadError(RuntimeError):
    """There was no load, or not all of it was answered well."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one stretch of load came to; latencies are in seconds."""

    requests: int
    requests_per_second: float
    p50: float
    p99: float


def ensure_wrk() -> None:
    """Install wrk where that goes without asking; raises `LoadError` where it does not."""
    if shutil.which("wrk"):
        return
    # S607: where a package manager lies is the system's business.
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
    """Ask for the paths in turn for so long.

    Raises:
        LoadError: something was answered by anything but success, or not at all.
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
    longest: float = 60.0,
) -> Iterator[Load]:
    """Have the paths asked for in turn until the block ends."""
    with tempfile.NamedTemporaryFile("w", suffix=".paths") as file:
        file.writelines(f"{path}\n" for path in paths)
        file.flush()
        options = (f"-t1 -c{connections} -d{math.ceil(longest) + _SPARE_SECONDS}s -s").split()
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
    """A load that is under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def finish_after(self, seconds: float) -> Slice:
        """Let it go on for so long, then end it; gives what it came to."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            # wrk takes whole seconds only; told to stop, it sums up what there is.
            self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate()
        return read_summary(output)


def read_summary(output: str) -> Slice:
    """What `wrk.lua` printed last. Pure.

    Raises:
        LoadError: it printed nothing of that kind, or counted errors, or no request at all.
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
