"""What scenarios stand on: stores, servers and service processes, all in one folder.

Everything that they leave stays in the folder, and every credential is noted, so that the last
scenario can look for each credential in all of it.
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

# Seconds: the slowest machine is ready and gone within this.
_DEADLINE: Final = 120.0
_POLL: Final = 0.02
# What tells two lines of a log apart that say the same.
_PASSING: Final = frozenset({"timestamp", "request_id", "level"})


class GroundError(RuntimeError):
    """What a scenario stands on did not come about."""


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

    def mistakes(self) -> list[str]:
        """What its log tells of its own mistakes."""
        return [_brief(line) for line in self.lines() if line.get("level") in ("error", "critical")]

    def end(self) -> int:
        """Tell it to go, wait, and give its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(_DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def memory(self) -> int:
        """The bytes of memory that it has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


@dataclass
class Ground:
    """One run's folder, its shared node of Elasticsearch, and the credentials that it used."""

    folder: Path
    credentials: set[str] = field(default_factory=set, repr=False)
    _node: Node | None = None
    _made: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def note(self, *credentials: str) -> None:
        """Remember that these were used; other runs are told by a file beside the folder."""
        self.credentials.update(credentials)
        with self.ledger.open("a", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in credentials)

    @property
    def ledger(self) -> Path:
        """All credentials of all runs, a line each; they open nothing any more."""
        return self.folder.parent.parent / "credentials"

    def new_folder(self, name: str) -> Path:
        """An empty folder that is kept."""
        self._made += 1
        folder = self.folder / f"{self._made:03}-{name}"
        folder.mkdir(parents=True)
        return folder

    async def place(self, store: str) -> Place:
        """An empty store."""
        folder = self.new_folder(store)
        if store == "sqlite":
            return folder
        if self._node is None:
            # Measured: both compilers.
            self._node = Node(self.folder / "node", heap="1g", quick_start=False)
            await asyncio.to_thread(self._node.start)
        return ElasticsearchPlace((self._node.url,), f"harden-{self._made}")

    @property
    def node(self) -> Node | None:
        """The shared node, once a scenario asked for it."""
        return self._node

    @contextmanager
    def own_node(self, heap: str = "512m") -> Iterator[Node]:
        """A node that the scenario may harm."""
        with Node(self.new_folder("node"), heap=heap, quick_start=False) as node:
            yield node

    @contextmanager
    def redis(self, password: str | None = None, *, cluster: bool = False) -> Iterator[Redis]:
        """A Redis that the scenario may harm; what it holds in the end is written down."""
        folder = self.new_folder("redis")
        with Redis(folder, password=password, cluster=cluster) as server:
            yield server
            if server.alive:
                server.resume()
                _write_down(server.url, folder / "content")

    @asynccontextmanager
    async def serve(
        self, place: Place, *, around: Sequence[str] = (), **settings: str
    ) -> AsyncIterator[Running]:
        """A service over that store until the context is left; `around` is a command before it."""
        running = self.launch(place, around=around, **settings)
        try:
            running.port = await asyncio.to_thread(wait_for_port, running)
            yield running
        finally:
            await asyncio.to_thread(running.end)

    def launch(self, place: Place, *, around: Sequence[str] = (), **settings: str) -> Running:
        """Begin a service process."""
        log = self.new_folder("service") / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*around, *COMMAND, "serve", "--port", "0"],
                env=environment(place, **settings),
                stderr=output,
                start_new_session=True,
            )
        return Running(process, log)

    async def command(self, place: Place, *words: str, **settings: str) -> tuple[int, str, str]:
        """Type `mergewatch`; gives its status, what it printed and what it said."""
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

    def write_down_node(self) -> None:
        """Every document of the shared node in a file: what lies on the disk is packed."""
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
            self.write_down_node()
            self._node.stop()


def _brief(line: Mapping[str, object]) -> str:
    """A line of the log without its time, and of a traceback the end alone."""
    about = {name: value for name, value in line.items() if name not in _PASSING}
    if "exception" in about:
        about["exception"] = str(about["exception"]).rpartition("\n")[2]
    return str(about)


def environment(place: Place, **settings: str) -> dict[str, str]:
    """The environment of a process over that store; none of this process' own settings is in it."""
    kept = {name: value for name, value in os.environ.items() if "MERGEWATCH" not in name}
    given = {f"MERGEWATCH_{name.upper()}": value for name, value in settings.items()}
    return {
        **kept,
        **settings_of(place),
        "PYTHONPATH": str(ROOT),
        # All that there is to write, for the search of it.
        "MERGEWATCH_LOG_LEVEL": "debug",
        **given,
    }


def wait_for_port(running: Running) -> int:
    """Wait until the service listens.

    Raises:
        GroundError: it ended first.
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
    raise GroundError(f"the service ended with {running.process.returncode}: {said[-2000:]}")


def _write_down(url: str, path: Path) -> None:
    with redis.Redis.from_url(url) as client, path.open("wb") as output:
        for key in client.scan_iter():
            output.write(key + b"\n")
            if client.type(key) == b"string":
                output.write((client.get(key) or b"") + b"\n")
            else:
                output.write((client.dump(key) or b"") + b"\n")
