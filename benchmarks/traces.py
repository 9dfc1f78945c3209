"""Measures what traces cost the event loop: `python -m benchmarks.traces [OTHER TREE]`.

The services run at once and get requests in turn, so that other load on the machine affects all.
The minimum of many rounds counts. If a source tree of another version is given, it is measured too.
"""

from __future__ import annotations

import asyncio
import http
import os
import re
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from benchmarks.running.processes import HOST, ROOT, Launch, Running, free_port, running
from indexing.clocks import utc_now
from indexing.identifiers import derive_test_id
from indexing.models.keys import Scope
from indexing.store import open_store
from service.auth.api_keys import make_key, make_key_id
from tests.builders import WIDGETS, load_names

ROUNDS: Final = 12
REQUESTS: Final = 300
_PIECE: Final = 64 * 1024
_NANOSECONDS: Final = 1_000
_PROGRAM: Final = "from service.cli import main; main()"
_RATIO: Final = {
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0.01",
}

Headers = dict[str, str]


class Client:
    """One connection to a service."""

    def __init__(self, service: Running, key: str) -> None:
        self._schedule = Path(f"/proc/{service.pid}/schedstat")
        # A raw socket, so that the next request follows at once, as from a busy client.
        self._socket = socket.create_connection((HOST, service.port))
        self._key = key

    def ask(self, path: str, headers: Headers) -> None:
        fields = {"Host": HOST, "Authorization": f"Bearer {self._key}", **headers}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._socket.recv(_PIECE)
        head, _, body = received.partition(b"\r\n\r\n")
        size = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if size is None or not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{path} is answered with {head!r}")
        while len(body) < int(size[1]):
            body += self._socket.recv(_PIECE)

    def spend(self, requests: Iterator[tuple[str, Headers]]) -> float:
        """Return the CPU time of the service's main thread per request, in microseconds."""
        began, count = self._read_time(), 0
        for path, headers in requests:
            self.ask(path, headers)
            count += 1
        return (self._read_time() - began) / count / _NANOSECONDS

    def _read_time(self) -> int:
        return int(self._schedule.read_text().split()[0])


class Collector(BaseHTTPRequestHandler):
    """A collector that accepts and discards all spans."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[str]:
    with ThreadingHTTPServer((HOST, 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


async def load(folder: Path) -> tuple[str, list[str]]:
    """Fill the store; return a key, and the path of a test for each request."""
    store = await open_store(folder)
    names = [f"test_{number}" for number in range(ROUNDS * REQUESTS + 1)]
    await load_names(store, names)
    key, record = make_key(
        key_id=make_key_id(),
        name="bench",
        scope=Scope.READ,
        owner=WIDGETS.owner,
        repository=None,
        created_at=utc_now(),
    )
    await store.add_key(record)
    await store.close()
    tests = "/v1/ci/acme/repositories/widgets/tests"
    return key, [f"{tests}/{derive_test_id(WIDGETS, name)}" for name in names]


def make_requests(paths: list[str], number: int) -> dict[str, Iterator[tuple[str, Headers]]]:
    """Return the requests of one round, by the name of their measurement."""
    cached, other = paths[0], paths[1 + number * REQUESTS :][:REQUESTS]

    def repeat(headers: Callable[[], Headers]) -> Iterator[tuple[str, Headers]]:
        return ((cached, headers()) for _ in range(REQUESTS))

    return {
        "repeated": repeat(dict),
        "a head of its own": repeat(lambda: {"X-Number": uuid.uuid4().hex}),
        "a sampled traceparent": repeat(
            lambda: {"traceparent": f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"}
        ),
        "not cached": ((path, {}) for path in other),
    }


def measure(folder: Path, other: Path | None) -> None:
    key, paths = asyncio.run(load(folder))
    with ExitStack() as opened:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": opened.enter_context(collecting())}
        kinds = {"off": (ROOT, {}), "all": (ROOT, endpoint), "1 %": (ROOT, endpoint | _RATIO)}
        if other is not None:
            kinds["other tree"] = (other, {})
        clients, cores = {}, frozenset(os.sched_getaffinity(0))
        for name, (tree, variables) in kinds.items():
            port = free_port()
            settings = {"MERGEWATCH_DATA_DIR": str(folder), "PYTHONPATH": str(tree)}
            # Without `-P`, the folder that it runs in would come first.
            command = (sys.executable, "-P", "-c", _PROGRAM, "serve", "--port", str(port))
            launch = Launch(command, "/health/ready", settings | variables)
            service = running(launch, port, folder / f"{port}.log", cores)
            clients[name] = Client(opened.enter_context(service), key)
        least: dict[tuple[str, str], float] = {}
        for number in range(ROUNDS):
            # None of them always comes after the same one.
            turn = number % len(clients)
            for name, client in (*list(clients.items())[turn:], *list(clients.items())[:turn]):
                for about, requests in make_requests(paths, number).items():
                    spent = client.spend(requests)
                    least[about, name] = min(spent, least.get((about, name), spent))
    for (about, name), spent in sorted(least.items()):
        print(f"{about:24} {name:12} {spent:6.1f} µs")


def main() -> None:
    other = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), other)


if __name__ == "__main__":
    main()
