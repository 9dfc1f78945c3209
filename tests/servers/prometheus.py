"""A real Prometheus that scrapes one service for a test."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from tests.servers.ports import HOST, reserve
from tests.servers.process import Server, ServerProcess

ANSWER_SECONDS: Final = 30.0


class PrometheusMissingError(RuntimeError):
    """Prometheus is not installed on this machine."""


def find_prometheus() -> str:
    found = shutil.which("prometheus")
    if found is None:
        raise PrometheusMissingError(
            "no Prometheus on the path: install one (Debian: apt-get install prometheus)"
        )
    return found


class Prometheus(Server):
    """One server with that configuration."""

    def __init__(self, folder: Path, configuration: Mapping[str, Any]) -> None:
        super().__init__()
        self.folder = folder
        self.port: Final = reserve()
        self._configuration = configuration

    def launch(self) -> ServerProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "prometheus.yml"
        configuration.write_text(yaml.safe_dump(dict(self._configuration)), encoding="utf-8")
        command = [
            find_prometheus(),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={HOST}:{self.port.number}",
        ]
        return ServerProcess(command, self.folder, self.folder / "prometheus.log")

    def wait_until_ready(self) -> None:
        self.process.wait_until(self._is_ready, f"Prometheus on port {self.port.number}")

    def release(self) -> None:
        self.port.release()

    def query(self, expression: str) -> list[float]:
        """The values of all series of an instant query.

        Raises:
            ValueError: Prometheus refuses the expression.
        """
        status, text = self._get("/api/v1/query?" + urlencode({"query": expression}))
        if status != 200:
            raise ValueError(f"{expression}: {text}")
        return [float(series["value"][1]) for series in json.loads(text)["data"]["result"]]

    def _is_ready(self) -> bool:
        try:
            return self._get("/-/ready")[0] == 200
        except OSError:
            return False

    def _get(self, target: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self.port.number, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()
