"""Waits until a server is idle: it may still work on the rest of an earlier load."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LOOK_SECONDS: Final = 0.05
# The share of one core that counts as idle: housekeeping, not requests.
_AT_REST: Final = 0.1
_LONGEST_SECONDS: Final = 60.0


class RestlessError(RuntimeError):
    """A server without requests does not become idle."""


def wait_until_at_rest(pid: int) -> None:
    """Wait until the process and its children are nearly idle; return at once if that is unknown.

    Raises:
        RestlessError: they are still busy after a minute.
    """
    if not _PROC.is_dir():
        return
    deadline = time.monotonic() + _LONGEST_SECONDS
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        now = cpu_seconds(pid)
        if now - before < _AT_REST * _LOOK_SECONDS:
            return
        before = now
    raise RestlessError(f"process {pid} does not come to rest")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of the process and its children so far."""
    ticks = sum(_ticks_of(one) for one in [pid, *children_of(pid)])
    return ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """Return all descendants of a process."""
    found = []
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children_of(child)]
    return found


def _ticks_of(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except FileNotFoundError:
        return 0
    # The second field is a name in parentheses with any content; user and system time are fields 14
    # and 15 of proc(5).
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
