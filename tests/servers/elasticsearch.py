"""Real Elasticsearch nodes, single or clustered, that a test starts, breaks and stops."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.servers.jars import CACHE, elasticsearch_home
from tests.servers.jdk import find_java
from tests.servers.launcher import MAIN, compile_launcher
from tests.servers.ports import HOST, reserve
from tests.servers.process import DEADLINE, Server, ServerProcess

NATIVE: Final = "ALL-UNNAMED,org.elasticsearch.nativeaccess,org.apache.lucene.core"
# Timeout in seconds of one health request. It is short, so that an ended process is noticed soon.
HEALTH_TIMEOUT: Final = 1

LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""

SETTINGS: Final = {
    "discovery.type": "single-node",
    "http.host": HOST,
    "transport.host": HOST,
    # Tests run on machines with a nearly full disk, and delete indices by pattern.
    "cluster.routing.allocation.disk.threshold_enabled": False,
    "action.destructive_requires_name": False,
}


# The setting of Elasticsearch's own launcher for small heaps: garbage collection starts before the
# circuit breaker for the heap refuses requests. Otherwise a quiet node would refuse them until it
# stops.
_COLLECTOR: Final = (
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=4m",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:G1ReservePercent=15",
)


class Node(Server):
    """One node: it keeps its ports, data and log for the lifetime of the object."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node-1",
        heap: str = "512m",
        quick_start: bool = True,
        settings: Mapping[str, object] | None = None,
        port: int | None = None,
        classes_to: Path | None = None,
    ) -> None:
        """`quick_start` disables the second compiler: good for tests, wrong for measurements.

        `port` is the HTTP port; another one is used if it is taken. `classes_to` is where the node
        archives the classes that it loaded when it stops, instead of using such an archive.
        """
        super().__init__()
        self.folder = folder
        self.name = name
        self.http: Final = reserve(port)
        self.transport: Final = reserve()
        self.cluster_size = 1
        self._heap = heap
        self._quick_start = quick_start
        self._settings = dict(settings or {})
        self._classes_to = classes_to

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http.number}"

    def join(self, settings: Mapping[str, object], cluster_size: int) -> None:
        """Form a cluster of `cluster_size` nodes from the next start on."""
        self._settings.update(settings)
        self.cluster_size = cluster_size

    def launch(self) -> ServerProcess:
        home, java = elasticsearch_home(), find_java()
        jar = compile_launcher(java, home)
        if self._classes_to is None:
            classes = f"-XX:SharedArchiveFile={archive_classes(java, jar)}"
        else:
            classes = f"-XX:ArchiveClassesAtExit={self._classes_to}"
        launched = [classes, f"--class-path={jar}", MAIN]
        config = self.folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        # JSON is valid YAML.
        configuration = json.dumps(self._configuration(), indent=1)
        (config / "elasticsearch.yml").write_text(configuration, encoding="utf-8")
        return ServerProcess(
            [java, *self._flags(home), *launched, home, config, self.name],
            self.folder,
            self.folder / "node.log",
        )

    def wait_until_ready(self) -> None:
        """Wait until all nodes have joined the cluster and every shard has a primary."""
        self.wait_for("yellow", self.cluster_size)

    def wait_for(self, status: str, nodes: int) -> None:
        """Wait until the cluster has that status (`red`, `yellow`, `green`) and number of nodes."""
        query = f"wait_for_status={status}&wait_for_nodes=>={nodes}&timeout={HEALTH_TIMEOUT}s"
        self.process.wait_until(lambda: self._answers(query), f"{self.name} on {self.url}")

    def release(self) -> None:
        self.http.release()
        self.transport.release()

    def ask(
        self, path: str, method: str = "GET", body: object = None, *, timeout: float = DEADLINE
    ) -> tuple[int, Any]:
        """Return the status and the JSON body of the response.

        Raises:
            OSError: the node is not reachable, or did not respond within the timeout.
        """
        connection = http.client.HTTPConnection(HOST, self.http.number, timeout=timeout)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.name} did not answer in full") from error
        finally:
            connection.close()

    def _answers(self, query: str) -> bool:
        try:
            status, _ = self.ask(f"/_cluster/health?{query}", timeout=5 * HEALTH_TIMEOUT)
        except OSError:
            return False
        return status == http.HTTPStatus.OK

    def _configuration(self) -> dict[str, object]:
        return {
            "cluster.name": "mergewatch",
            "node.name": self.name,
            "http.port": self.http.number,
            "transport.port": self.transport.number,
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            **SETTINGS,
            **self._settings,
        }

    def _flags(self, home: Path) -> list[str]:
        return [
            f"--module-path={home / 'lib'}",
            "--add-modules=ALL-MODULE-PATH",
            f"--enable-native-access={NATIVE}",
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            *_COLLECTOR,
            *(["-XX:TieredStopAtLevel=1"] if self._quick_start else []),
        ]


def archive_classes(java: Path, jar: Path, cache: Path = CACHE) -> Path:
    """The archive of the classes that a node loads, created if missing; takes half a minute.

    A node that maps the archive starts with half the CPU time. A JVM of another version ignores it.
    """
    version = hashlib.sha256(f"{java.resolve()}\n{jar.resolve()}".encode())
    release = java.resolve().parents[1] / "release"
    if release.is_file():
        version.update(release.read_bytes())
    archive = cache / f"classes-{version.hexdigest()[:16]}.jsa"
    with (cache / "archive.lock").open("w") as lock:
        # Two sessions may both try to create it first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                made = Path(folder, archive.name)
                with Node(Path(folder), classes_to=made) as node:
                    # A document and a search load what most tests use.
                    node.ask("/made/_doc/1?refresh=true", "PUT", {"a": 1})
                    node.ask("/made/_search")
                if made.is_file():
                    made.rename(archive)
                else:
                    # A JVM that cannot archive: without this, each start would try again.
                    archive.touch()
    return archive


class Cluster:
    """Several nodes in one cluster; a test breaks and restarts each of them separately.

    A restarted node waits for all the others too: use `run` and `wait_for` when some stay down.
    """

    def __init__(self, folder: Path, size: int = 3, *, heap: str = "512m") -> None:
        self.nodes: Final = [
            Node(folder / f"node-{number}", name=f"node-{number}", heap=heap)
            for number in range(1, size + 1)
        ]
        joined = {
            "discovery.type": "multi-node",
            "discovery.seed_hosts": [f"{HOST}:{node.transport.number}" for node in self.nodes],
            "cluster.initial_master_nodes": [node.name for node in self.nodes],
        }
        for node in self.nodes:
            node.join(joined, size)

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def start(self) -> Self:
        try:
            for node in self.nodes:
                node.run()
            for node in self.nodes:
                node.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def elected(self) -> Node:
        """The current master node."""
        running = next(node for node in self.nodes if node.alive)
        _, (master,) = running.ask("/_cat/master?format=json")
        return next(node for node in self.nodes if node.name == master["node"])

    def stop(self) -> None:
        for node in self.nodes:
            # Killed, because all nodes stop: no other node could take over its shards.
            if node.alive:
                node.kill()
            node.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
