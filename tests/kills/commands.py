"""`mergewatch` as a process that a test may kill, over a store in either backend."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from tests.forked import ForkedCommand, run_forked
from tests.places import Place, settings_of


def environment_of(place: Place) -> Mapping[str, str]:
    """The environment of a command over that store, outside of any CI job."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | settings_of(place)


def run(place: Place, arguments: Sequence[str]) -> float:
    """Run the command to its successful end; return the seconds it took."""
    began = time.monotonic()
    run_forked(*arguments, environment=environment_of(place))
    return time.monotonic() - began


def kill(place: Place, arguments: Sequence[str], after: float) -> bool:
    """Kill the command after so many seconds; return whether it still ran."""
    command = ForkedCommand(*arguments, environment=environment_of(place))
    if command.ends_within(after):
        command.wait()
        return False
    command.kill()
    return command.wait().returncode == -signal.SIGKILL
