"""The environment of scenarios: stores, servers and service processes, all in one folder.

All their files stay in the folder, and every credential is recorded, so that the last scenario can
search the files for each credential.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

import redis

from indexing.store import ElasticsearchPlace
from tests.places import Place, settings_of
from tests.servers.elasticsearch import Node
from tests.servers.redis import Redis

ROOT: Final = Path(__file__).parents[1]
STORES: Final = ("sqlite", "elasticsearch")
COMMAND: Final = (sys.executable, "-c", "from service.cli import main; main()")

# The seconds to wait for a service to start or stop: enough on the slowest machine.
_DEADLINE: Final = 120.0
_POLL: Final = 0.02
# Fields that differ between two log lines with the same message.
_VARYING: Final = frozenset({"timestamp", "request_id", "level"})


class HarnessError(RuntimeError):
    """The environment of a scenario could not be set up."""


@dataclass
class Running:
    """A service process and its log."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int = 0

    def lines(self) -> Iterator[dict[str, object]]:
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def service_errors(self) -> list[str]:
        """Return the log lines in which the service reports an error of its own."""
        return [_brief(line) for line in self.lines() if line.get("level") in ("error", "critical")]

    def end(self) -> int:
        """Stop it, wait, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(_DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def memory(self) -> int:
        """Return the memory that it uses, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


@dataclass
class Harness:
    """The folder of one run, its shared Elasticsearch node, and the credentials used so far."""

    folder: Path
    credentials: set[str] = field(default_factory=set, repr=False)
    _node: Node | None = None
    _made: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def record_credentials(self, *credentials: str) -> None:
        """Record used credentials; other runs read them from a file beside the folder."""
        self.credentials.update(credentials)
        with self.credentials_file.open("a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in credentials)

    @property
    def credentials_file(self) -> Path:
        """The file with the credentials of all runs, one per line; none of them is still valid."""
        return self.folder.parent.parent / "credentials"

    def new_folder(self, name: str) -> Path:
        """Create an empty folder that is kept."""
        self._made += 1
        folder = self.folder / f"{self._made:03}-{name}"
        folder.mkdir(parents=True)
        return folder

    async def new_store(self, store: str) -> Place:
        """Create an empty store."""
        folder = self.new_folder(store)
        if store == "sqlite":
            return folder
        if self._node is None:
            # This node is measured, so it uses both JIT compilers.
            self._node = Node(self.folder / "node", heap="1g", quick_start=False)
            await asyncio.to_thread(self._node.start)
        return ElasticsearchPlace((self._node.url,), f"harden-{self._made}")

    @property
    def node(self) -> Node | None:
        """Return the shared node if a scenario has started it."""
        return self._node

    @contextmanager
    def own_node(self, heap: str = "512m") -> Iterator[Node]:
        """Run a node that the scenario may damage."""
        with Node(self.new_folder("node"), heap=heap, quick_start=False) as node:
            yield node

    @contextmanager
    def redis(self, password: str | None = None, *, cluster: bool = False) -> Iterator[Redis]:
        """Run a Redis that the scenario may damage; dump its contents at the end."""
        folder = self.new_folder("redis")
        with Redis(folder, password=password, cluster=cluster) as server:
            yield server
            if server.alive:
                server.resume()
                _dump_redis(server.url, folder / "content")

    @asynccontextmanager
    async def serve(
        self, place: Place, *, wrapper: Sequence[str] = (), **settings: str
    ) -> AsyncIterator[Running]:
        """Run a service over that store, started by `wrapper`, until the context exits."""
        running = self.launch(place, wrapper=wrapper, **settings)
        try:
            running.port = await asyncio.to_thread(wait_for_port, running)
            yield running
        finally:
            await asyncio.to_thread(running.end)

    def launch(self, place: Place, *, wrapper: Sequence[str] = (), **settings: str) -> Running:
        """Start a service process."""
        log = self.new_folder("service") / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*wrapper, *COMMAND, "serve", "--port", "0"],
                env=environment(place, **settings),
                stderr=output,
                start_new_session=True,
            )
        return Running(process, log)

    async def command(self, place: Place, *words: str, **settings: str) -> tuple[int, str, str]:
        """Run `mergewatch`; return its exit status, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            env=environment(place, **settings),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, said = await process.communicate()
        (self.new_folder("command") / "said").write_bytes(printed * (words[0] != "keys") + said)
        return process.returncode or 0, printed.decode().strip(), said.decode()

    def dump_node(self) -> None:
        """Write every document of the shared node to a file: its own files are compressed."""
        if self._node is None:
            return
        query = {"size": 1000, "query": {"match_all": {}}}
        path = self.new_folder("elasticsearch") / "content"
        with path.open("w", encoding="utf-8") as output:
            status, page = self._node.ask("/_search?scroll=1m&expand_wildcards=all", "POST", query)
            while status == HTTPStatus.OK and page["hits"]["hits"]:
                output.writelines(f"{json.dumps(hit)}\n" for hit in page["hits"]["hits"])
                scroll = {"scroll": "1m", "scroll_id": page["_scroll_id"]}
                status, page = self._node.ask("/_search/scroll", "POST", scroll)

    def close(self) -> None:
        if self._node is not None and self._node.alive:
            self.dump_node()
            self._node.stop()


def _brief(line: Mapping[str, object]) -> str:
    """Return a log line without its time, and only the end of a traceback."""
    about = {name: value for name, value in line.items() if name not in _VARYING}
    if "exception" in about:
        about["exception"] = str(about["exception"]).rpartition("\n")[2]
    return str(about)


def environment(place: Place, **settings: str) -> dict[str, str]:
    """Return the environment of a process over that store, without this process' own settings."""
    kept = {name: value for name, value in os.environ.items() if "MERGEWATCH" not in name}
    given = {f"MERGEWATCH_{name.upper()}": value for name, value in settings.items()}
    return {
        **kept,
        **settings_of(place),
        "PYTHONPATH": str(ROOT),
        # Log everything, so that the credential search covers it.
        "MERGEWATCH_LOG_LEVEL": "debug",
        **given,
    }


def wait_for_port(running: Running) -> int:
    """Wait until the service listens.

    Raises:
        HarnessError: the process ended first.
    """
    while running.process.poll() is None:
        for line in running.lines():
            if line["event"] == "listening":
                return int(str(line["address"]).rpartition(":")[2])
        try:
            running.process.wait(_POLL)
        except subprocess.TimeoutExpired:
            continue
    said = running.log.read_text(encoding="utf-8", errors="replace")
    raise HarnessError(f"the service ended with {running.process.returncode}: {said[-2000:]}")


def _dump_redis(url: str, path: Path) -> None:
    with redis.Redis.from_url(url) as client, path.open("wb") as output:
        for key in client.scan_iter():
            output.write(key + b"\n")
            if client.type(key) == b"string":
                output.write((client.get(key) or b"") + b"\n")
            else:
                output.write((client.dump(key) or b"") + b"\n")
