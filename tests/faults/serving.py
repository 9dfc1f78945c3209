"""A service process over a store that a test breaks; its log is read all the time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.places import Place, settings_of
from tests.service.processes import TIMEOUT, Service, port_of


@dataclass
class Serving:
    """A running service, and the log lines that report an error in it."""

    service: Service
    base: str
    mistakes: list[str]
    reader: threading.Thread

    def kill(self) -> None:
        """Send SIGKILL."""
        self.service.process.kill()
        self.service.process.wait(TIMEOUT)

    def end(self) -> None:
        """Kill it if it still runs; check that its log has no error."""
        self.kill()
        self.reader.join(TIMEOUT)
        assert self.mistakes == []


def service_over(place: Place, **environment: str) -> Service:
    """A service process over that store, which may not accept requests yet."""
    return Service(Path("none"), **settings_of(place), **environment)


def start(place: Place, **environment: str) -> Serving:
    """Start the service over that store, and wait until it listens."""
    service = service_over(place, **environment)
    base = f"http://127.0.0.1:{port_of(service.next_line('listening'))}"
    mistakes: list[str] = []
    # A full pipe that nobody reads would block the service.
    reader = threading.Thread(target=_read, args=(service, mistakes))
    reader.start()
    return Serving(service, base, mistakes, reader)


@contextmanager
def serving(place: Place, **environment: str) -> Iterator[Serving]:
    """Run the service over that store until the block ends."""
    running = start(place, **environment)
    try:
        yield running
    finally:
        running.end()


def _read(service: Service, mistakes: list[str]) -> None:
    log = service.process.stderr
    assert log is not None
    with log:
        mistakes += [line for line in log if json.loads(line)["level"] == "error"]
