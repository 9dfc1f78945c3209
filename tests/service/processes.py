"""The service as a separate process, started and stopped by a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Long enough for the slowest machine; no test waits for it to pass.
TIMEOUT = 60


class Service:
    """A running service and its log."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        command = "from service.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--port", "0"],
            env={
                **os.environ,
                "MERGEWATCH_DATA_DIR": str(data_dir),
                "PYTHONPATH": str(Path(__file__).parents[2]),
                **environment,
            },
            stderr=subprocess.PIPE,
            text=True,
        )

    def next_line(self, event: str) -> dict[str, Any]:
        """Return the next log line of this event; skip other lines before it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        raise AssertionError(f"the service ended without saying {event!r}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until the service has ended; return its exit status."""
        self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode


Start = Callable[..., Service]


def port_of(line: dict[str, Any]) -> int:
    return int(line["address"].rpartition(":")[2])
