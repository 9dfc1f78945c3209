"""`mergewatch` as a process that a test may kill, over a store in either backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.places import Place, settings_of
from tests.service.processes import TIMEOUT

ROOT = Path(__file__).parents[2]

# It imports everything before it prints `ready`, so that only the command itself is timed or
# killed.
READY = """
import sys
import indexing.store.elasticsearch.store, indexing.store.sqlite.store
from service.cli import main

print("ready", flush=True)
sys.stdin.readline()
main()
"""


def environment_of(place: Place) -> Mapping[str, str]:
    """The environment of a command over that store, outside of any CI job."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT)} | settings_of(place)


def run(place: Place, arguments: Sequence[str]) -> float:
    """Run the command to its successful end; return the seconds it took."""
    with _ready(place, arguments) as process:
        began = _go(process)
        assert process.wait(TIMEOUT) == 0
        return time.monotonic() - began


def kill(place: Place, arguments: Sequence[str], after: float) -> bool:
    """Kill the command after so many seconds; return whether it still ran."""
    with _ready(place, arguments) as process:
        _go(process)
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait(TIMEOUT) == -signal.SIGKILL


def _ready(place: Place, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", READY, *arguments],
        env=environment_of(place),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def _go(process: subprocess.Popen[bytes]) -> float:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return time.monotonic()
