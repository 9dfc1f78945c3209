"""A real pytest run; OpenTelemetry's SDK exports its results to a real, running service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.beside import ask, make_key, mergewatch
from tests.service.processes import TIMEOUT, Start, port_of

SUITE = """
import os
import pathlib

import pytest


def test_steady():
    pass


def test_shaky():
    assert os.environ["ATTEMPT"] == "2", "the hinge is stuck"


@pytest.mark.skip(reason="no oil")
def test_oiled():
    pass
"""

# A minimal CI plugin.
PLUGIN = """
import os

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

RESOURCE = {
    "cicd.pipeline.name": "ci",
    "cicd.pipeline.task.name": "unit",
    "cicd.pipeline.run.id": "1",
    "cicd.pipeline.run.attempt": int(os.environ["ATTEMPT"]),
    "vcs.ref.head.name": "main",
    "vcs.ref.head.revision": "c0ffee",
    "test.framework": "pytest",
    "test.framework.version": pytest.__version__,
    "test.language": "python",
}


def pytest_configure(config):
    exporter = OTLPSpanExporter(
        endpoint=os.environ["TRACES_URL"],
        headers={"Authorization": "Bearer " + os.environ["TRACES_KEY"]},
        compression=Compression.Gzip,
    )
    config.provider = TracerProvider(resource=Resource.create(RESOURCE))
    config.provider.add_span_processor(BatchSpanProcessor(exporter))
    config.tracer = config.provider.get_tracer("suite")
    config.session_span = config.tracer.start_span("session", attributes={"test.scope": "session"})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    path, _, function = item.location
    with item.config.tracer.start_as_current_span(
        item.nodeid,
        attributes={"test.scope": "case", "code.filepath": path, "code.function": function},
    ) as item.span:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" or report.skipped:
        item.span.set_attribute("test.case.result.status", report.outcome)
        if call.excinfo is not None and report.failed:
            item.span.record_exception(call.excinfo.value)
            item.span.set_status(Status(StatusCode.ERROR))
    return report


def pytest_unconfigure(config):
    config.session_span.end()
    config.provider.shutdown()
"""


def run_suite(folder: Path, attempt: int, url: str, key: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={
            **os.environ,
            "ATTEMPT": str(attempt),
            "TRACES_URL": url,
            "TRACES_KEY": key,
            # Importing the plugins of this suite takes seconds; that one uses none.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert "Failed to export" not in done.stderr, done.stderr
    return done.returncode


def test_a_suite_that_exports_its_results_shows_up_with_its_flaky_test_and_quarantine(
    start: Start, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    service = start(MERGEWATCH_INGEST="true")
    base = f"http://127.0.0.1:{port_of(service.next_line('listening'))}/v1/ci/acme/repositories"
    sends, reads = make_key(tmp_path, "ingest"), make_key(tmp_path, "read")
    suite = tmp_path_factory.mktemp("suite")
    (suite / "test_hinge.py").write_text(SUITE, encoding="utf-8")
    (suite / "conftest.py").write_text(PLUGIN, encoding="utf-8")
    codes = [run_suite(suite, attempt, f"{base}/hinge/traces", sends) for attempt in (1, 2)]
    assert codes == [1, 0]

    page = ask(f"{base}/hinge/search/tests?test_name=*&sort=test_name&direction=asc", reads)
    ids = {test["test_name"]: test["test_id"] for test in page["tests"]}
    assert [*ids] == [f"test_hinge.py::test_{name}" for name in ("oiled", "shaky", "steady")]
    oiled, shaky, steady = (ask(f"{base}/hinge/tests/{test_id}", reads) for test_id in ids.values())
    assert (oiled["health_status"], oiled["last_conclusion"]) == ("unknown", "skipped")
    assert (steady["health_status"], steady["success_ratio"]) == ("healthy", 1.0)
    assert (shaky["health_status"], shaky["last_conclusion"]) == ("flaky", "passed")
    assert shaky["first_failure_commit"] == "c0ffee"
    assert shaky["test_framework"] == "pytest"
    assert (shaky["test_filepath"], shaky["test_function_name"]) == ("test_hinge.py", "test_shaky")

    assert ask(f"{base}/hinge/quarantines", sends) == {"quarantined_tests": []}
    mergewatch(tmp_path, "repository", "set", "acme/hinge", "--auto-quarantine", "on")
    (quarantine,) = ask(f"{base}/hinge/quarantines", sends)["quarantined_tests"]
    assert quarantine["test_name"] == "test_hinge.py::test_shaky"
    assert (quarantine["source"], quarantine["branch"]) == ("auto", None)
    assert service.stop() == 0
