"""Real nodes of Elasticsearch, alone or as a cluster, that a test starts, harms and ends.

Every call blocks: within an event loop that has other work, use `asyncio.to_thread`.
"""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from tests.servers.jars import elasticsearch_home
from tests.servers.jdk import find_java
from tests.servers.ports import HOST, reserve
from tests.servers.process import ServerProcess

Status = Literal["red", "yellow", "green"]

LAUNCHER: Final = Path(__file__).with_name("StartNode.java")
# A node is asked this often whether it is ready, so that a look at the process is never far.
HEALTH_TIMEOUT: Final = 1

NATIVE: Final = "ALL-UNNAMED,org.elasticsearch.nativeaccess,org.apache.lucene.core"

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
    "network.host": HOST,
    "http.host": HOST,
    "transport.host": HOST,
    # A test starts on machines whose disk is nearly full, and cleans up by pattern.
    "cluster.routing.allocation.disk.threshold_enabled": False,
    "action.destructive_requires_name": False,
}


class Node:
    """One node: the same ports, data and log for as long as the object lives."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node-1",
        heap: str = "512m",
        quick_start: bool = True,
        settings: Mapping[str, object] | None = None,
        http_port: int | None = None,
    ) -> None:
        """`quick_start` leaves out the second compiler: right for tests, wrong for measuring."""
        self.folder = folder
        self.name = name
        self.http: Final = reserve(http_port)
        self.transport: Final = reserve()
        self._heap = heap
        self._quick_start = quick_start
        self._settings = dict(settings or {})
        self._process: ServerProcess | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http.number}"

    @property
    def process(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def start(self, status: Status | None = "yellow") -> Self:
        """Run it, and wait until its cluster is at least of that status.

        With None, do not wait at all.
        """
        home = elasticsearch_home()
        java = find_java()
        config = self.folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        # JSON is YAML too.
        (config / "elasticsearch.yml").write_text(json.dumps(self._configuration(), indent=1))
        self._process = ServerProcess(
            [java, *self._flags(home), LAUNCHER, home, config, self.name],
            self.folder,
            self.folder / "node.log",
        )
        if status is not None:
            self.wait_until_ready(status)
        return self

    def wait_until_ready(self, status: Status = "yellow", nodes: int = 1) -> None:
        """Wait for `GET /_cluster/health` to answer 200 for that status and count of nodes."""
        query = f"wait_for_status={status}&wait_for_nodes=>={nodes}&timeout={HEALTH_TIMEOUT}s"
        self.process.wait_until(lambda: self._is_ready(query), f"{self.name} on {self.url}")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def suspend(self) -> None:
        self.process.suspend()

    def resume(self) -> None:
        self.process.resume()

    def restart(self, status: Status | None = "yellow") -> None:
        """Run it again on the same data and ports, be it ended or not."""
        if self.process.alive:
            self.process.stop()
        self.start(status)

    def stop(self) -> None:
        """End it in order, and give its ports back; its folder stays."""
        if self._process is not None and self._process.alive:
            self._process.stop()
        self.http.release()
        self.transport.release()

    def forget(self) -> None:
        """Drop its data; it must not run."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _is_ready(self, query: str) -> bool:
        connection = http.client.HTTPConnection(HOST, self.http.number, timeout=HEALTH_TIMEOUT * 5)
        try:
            connection.request("GET", f"/_cluster/health?{query}")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _configuration(self) -> dict[str, object]:
        return {
            "cluster.name": f"mergewatch-{self.transport.number}",
            "discovery.type": "single-node",
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
            "-p",
            str(home / "lib"),
            "--add-modules=ALL-MODULE-PATH",
            f"--enable-native-access={NATIVE}",
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            *(["-XX:TieredStopAtLevel=1"] if self._quick_start else []),
        ]
