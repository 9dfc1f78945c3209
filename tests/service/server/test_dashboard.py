"""The Grafana dashboard: Prometheus scrapes a real service, and answers every query of it."""

from __future__ import annotations

import http.client
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from indexing.models.keys import Scope
from indexing.store import open_store
from service.auth.api_keys import make_key
from tests.builders import NOON, WIDGETS
from tests.servers.folder import server_folder
from tests.servers.prometheus import Prometheus, PrometheusMissingError, find_prometheus
from tests.service.front_door import operations
from tests.service.processes import TIMEOUT, Start, port_of
from tests.spans import PROTOBUF, make_request, make_span

pytestmark = pytest.mark.slow

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
DASHBOARD: Final = json.loads((DEPLOY / "grafana" / "mergewatch.json").read_text(encoding="utf-8"))
CONFIGURATION: Final = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
EXPRESSIONS: Final = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
ALERTS: Final = (DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
TRACES: Final = "/v1/ci/acme/repositories/widgets/traces"
# What Grafana replaces: so that a rate needs a few scrapes only, and takes in all repositories.
VARIABLES: Final = {"$__rate_interval": "1m", "$repository": ".*"}


def resolve(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


class Client:
    """Sends what leaves a mark in every metric."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {key}"}
        self._sent = 0

    def work(self) -> None:
        self.ask("GET", operations()["quarantines"])
        self.ask("GET", operations()["search"] + str(self._sent))
        self._sent += 1
        spans = [make_span(f"test {self._sent}", result) for result in ("passed", "failed")]
        assert self.ask("POST", TRACES, make_request(spans).SerializeToString()) == 200

    def ask(self, method: str, target: str, body: bytes | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        try:
            sent = self._headers | ({} if body is None else {"Content-Type": PROTOBUF})
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def read_metrics(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()


@pytest.fixture
async def key(tmp_path: Path) -> str:
    store = await open_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    text, record = make_key(
        key_id="k", name="k", scope=Scope.ADMIN, owner="acme", repository=None, created_at=NOON
    )
    await store.add_key(record)
    await store.close()
    return text


@pytest.fixture
def client(start: Start, key: str, redis_url: str) -> Client:
    service = start(
        MERGEWATCH_METRICS="true",
        MERGEWATCH_METRICS_REPOSITORIES="acme/widgets",
        MERGEWATCH_INGEST="true",
        MERGEWATCH_REDIS_URL=redis_url,
    )
    return Client(port_of(service.next_line("listening")), key)


@pytest.fixture
def prometheus(client: Client) -> Iterator[Prometheus]:
    configuration = yaml.safe_load(CONFIGURATION)
    configuration["global"]["scrape_interval"] = "500ms"
    (job,) = configuration["scrape_configs"]
    # There is no name service here that knows the replicas.
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{client._port}"]}]
    with server_folder() as folder, Prometheus(Path(folder), configuration) as started:
        yield started


def test_every_query_of_the_dashboard_returns_data(client: Client, prometheus: Prometheus) -> None:
    without_data = {resolve(expression) for expression in EXPRESSIONS}

    def has_data(expression: str) -> bool:
        values = prometheus.query(expression)
        return bool(values) and not all(map(math.isnan, values))

    def everything_has_data() -> bool:
        client.work()
        for expression in tuple(without_data):
            if has_data(expression):
                without_data.discard(expression)
        return not without_data

    # Every look sends requests, so a rate has something to count.
    prometheus.process.wait_until(everything_has_data, f"no data for {without_data}")


def test_every_metric_of_dashboard_and_alerts_is_one_of_the_service(client: Client) -> None:
    """A query with a default value returns data even if no such metric exists."""
    client.work()
    exposed = set(re.findall(r"^# TYPE (\w+) ", client.read_metrics(), re.MULTILINE))
    named = {
        name for each in [*EXPRESSIONS, ALERTS] for name in re.findall(r"\bmergewatch_\w+", each)
    }
    assert {re.sub("_(bucket|count)$", "", name) for name in named} <= exposed


def test_the_dashboard_begins_with_the_provisioned_data_source() -> None:
    text = (DEPLOY / "grafana" / "datasources.yml").read_text(encoding="utf-8")
    (source,) = yaml.safe_load(text)["datasources"]
    asked: list[dict[str, Any]] = [
        part["datasource"]
        for panel in DASHBOARD["panels"]
        for part in (panel, *panel.get("targets", ()))
        if panel["type"] != "row"
    ]
    assert asked
    assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in asked)
    (chosen,) = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "datasource"]
    assert (source["type"], source["uid"]) == (chosen["query"], chosen["current"]["value"])
    scraped = yaml.safe_load(CONFIGURATION)["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped


def test_a_missing_prometheus_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PrometheusMissingError, match="apt-get install prometheus"):
        find_prometheus()
