"""The alerts for Prometheus: it accepts them, and they fire for what they are about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.servers.prometheus import find_prometheus

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "prometheus"
RULES: Final = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
UP: Final = 'up{job="mergewatch", instance="one"}'
REQUESTS: Final = 'mergewatch_requests_total{operation="events", status="%d"}'
CALLS: Final = 'mergewatch_store_seconds_count{call="search_tests"}'
FAILED: Final = 'mergewatch_store_errors_total{call="search_tests", reason="%s"}'

# What a scrape each minute has, and the alerts that fire after half an hour of it.
CASES: Final = [
    pytest.param({UP: "1x40", REQUESTS % 200: "0+600x40"}, set(), id="a healthy service"),
    pytest.param({UP: "0x40"}, {"MergewatchDown", "MergewatchReplicaDown"}, id="no answer"),
    pytest.param({REQUESTS % 200: "0+600x40"}, {"MergewatchDown"}, id="no target"),
    pytest.param(
        {UP: "1x40", UP.replace("one", "two"): "0x40"}, {"MergewatchReplicaDown"}, id="one of two"
    ),
    pytest.param(
        {UP: "1x40", REQUESTS % 500: "_x25 1x15"}, {"MergewatchInternalErrors"}, id="a first 500"
    ),
    pytest.param(
        {UP: "1x40", REQUESTS % 500: "3x25 4x15"}, {"MergewatchInternalErrors"}, id="another 500"
    ),
    pytest.param({UP: "1x40", REQUESTS % 500: "3x40"}, set(), id="a 500 of long ago"),
    pytest.param(
        {UP: "1x40", REQUESTS % 200: "0+600x40", REQUESTS % 503: "0+60x40"},
        {"MergewatchUnavailable"},
        id="503",
    ),
    pytest.param(
        {UP: "1x40", CALLS: "0x40", FAILED % "unavailable": "0+1x40"},
        {"MergewatchStoreUnavailable"},
        id="store",
    ),
    pytest.param(
        {UP: "1x40", CALLS: "0+600x40", FAILED % "unavailable": "0+1x40"}, set(), id="slow searches"
    ),
    pytest.param(
        {UP: "1x40", CALLS: "0+905x40", FAILED % "unavailable": "0+95x40"},
        set(),
        id="below a tenth",
    ),
    pytest.param(
        {UP: "1x40", CALLS: "0+895x40", FAILED % "unavailable": "0+105x40"},
        {"MergewatchStoreUnavailable"},
        id="above a tenth",
    ),
    pytest.param(
        {UP: "1x40", CALLS: "0x40", FAILED % "cancelled": "0+1x40"}, set(), id="cancelled reads"
    ),
    pytest.param(
        {UP: "1x40", "mergewatch_requests_shed_total": "0+5x40"},
        {"MergewatchOverloaded"},
        id="shed",
    ),
    pytest.param(
        {UP: "1x40", "mergewatch_redis_usable": "0x40"}, {"MergewatchRedisUnusable"}, id="Redis"
    ),
    pytest.param(
        {UP: "1x40", "mergewatch_stale_tests": "2x40"}, {"MergewatchTestsStale"}, id="stale"
    ),
    pytest.param(
        {UP: "1x40", "mergewatch_outbox_oldest_seconds": "3000+60x40"},
        {"MergewatchNotificationsWait"},
        id="notifications",
    ),
]


def promtool(*words: str | Path) -> None:
    command = shutil.which("promtool", path=str(Path(find_prometheus()).parent))
    assert command is not None
    done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_configuration_with_its_alerts() -> None:
    promtool("check", "config", FOLDER / "prometheus.yml")


@pytest.mark.parametrize(("series", "firing"), CASES)
def test_an_alert_fires_for_its_cause_alone(
    tmp_path: Path, series: dict[str, str], firing: set[str]
) -> None:
    (group,) = RULES["groups"]
    expected = [
        # `promtool` compares labels and texts too; a query for the alerts that fire has neither.
        {
            "expr": f'count by (alertname) (ALERTS{{alertname="{name}", alertstate="firing"}})',
            "eval_time": "30m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]
            if name in firing
            else [],
        }
        for name in (rule["alert"] for rule in group["rules"])
    ]
    case: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": expected,
    }
    file = tmp_path / "case.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yml")], "tests": [case]}))
    promtool("test", "rules", file)
