"""The OpenTelemetry variables: they turn traces on, choose the export, or are refused."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from service.config.settings import LogFormat, LogLevel, Settings
from service.config.traces import wants_traces
from service.logs import configure_logging
from service.server import process
from service.server.process import ServeError, serve
from service.tracing.log_lines import FewLines, add_span
from service.tracing.opening import TracesError, open_tracing
from service.tracing.tracing import FLUSH_SECONDS, Tracing

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "a", "OTEL_TRACES_SAMPLER": "always_on"}, False),
        ({"OTEL_TRACES_EXPORTER": ""}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": URL}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": URL}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_SDK_DISABLED": "false", "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL}, True),
    ],
)
def test_traces_are_on_when_a_variable_names_where_they_go(
    environment: Mapping[str, str], *, wanted: bool
) -> None:
    assert wants_traces(environment) is wanted


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "opentelemetry.trace"])
def test_a_service_without_the_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in tuple(sys.modules):
        if name.startswith(("service.tracing.", f"{missing}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(process, "_tune_interpreter", lambda: None)
    # This must not be reached.
    monkeypatch.delattr(process, "bind")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", URL)
    with pytest.raises(ServeError, match=r"pip install '\.\[otel\]'"):
        serve(Settings())


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"OTEL_TRACES_EXPORTER": "console,zipkin"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "carrier pigeon"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": URL, "OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": URL, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"},
    ],
    ids=["exporter", "one exporter", "protocol", "queue", "limit"],
)
def test_unsupported_export_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TracesError, match="OTEL_"):
        open_tracing()


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: no exporter 'zipkin'"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: no exporter 'otlp_proto_grpc'",
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "pigeon"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: no exporter 'otlp by pigeon'",
        ),
    ],
    ids=["exporter", "protocol", "protocol of traces"],
)
def test_the_error_of_a_missing_exporter_names_the_variable_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], wrong: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", URL)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TracesError, match=f"^{wrong} is installed$"):
        open_tracing()


async def test_the_variables_name_and_sample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    # A compose file sets an omitted variable to an empty text.
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "")
    tracing = open_tracing()
    assert not tracing.requests.takes_parents
    attributes = tracing.resource.attributes
    assert attributes["service.name"] == "mergewatch"
    assert attributes["deployment.environment.name"] == "test"
    assert {"service.version", "service.instance.id", "telemetry.sdk.version"} <= {*attributes}
    await tracing.close()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    monkeypatch.setenv("OTEL_PROPAGATORS", "baggage,tracecontext")
    tracing = open_tracing()
    assert tracing.requests.takes_parents
    assert tracing.resource.attributes["service.name"] == "ours"
    await tracing.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("propagators", "unknown", "takes_parents"),
    [
        ("tracecontex", ["tracecontex"], False),
        ("b3, baggage, xray", ["b3", "xray"], False),
        ("b3,TraceContext,", ["b3"], True),
    ],
)
async def test_unknown_propagators_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    propagators: str,
    unknown: Sequence[str],
    takes_parents: bool,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_PROPAGATORS", propagators)
    caplog.set_level(logging.WARNING, logger="service.tracing")
    tracing = open_tracing()
    await tracing.close()
    [record] = caplog.records
    assert record.getMessage() == "unknown propagators are ignored"
    assert record.__dict__["variable"] == "OTEL_PROPAGATORS"
    assert record.__dict__["names"] == unknown
    assert tracing.requests.takes_parents == takes_parents


def test_headers_for_the_collector_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.WARNING, LogFormat.JSON, [add_span], [FewLines()])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", URL)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "S3cr3t")
    open_tracing()
    (line,) = capsys.readouterr().err.splitlines()
    assert "OTEL_EXPORTER_OTLP_HEADERS" in line
    assert "S3cr3t" not in line


class Stuck(SpanExporter):
    """An exporter whose collector does not answer."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the name is the SDK's
        self.released.wait()
        return SpanExportResult.FAILURE


async def test_the_end_does_not_wait_for_a_collector_that_is_stuck() -> None:
    provider, stuck = TracerProvider(shutdown_on_exit=False), Stuck()
    provider.add_span_processor(BatchSpanProcessor(stuck))
    provider.get_tracer("a").start_span("b").end()
    began = time.monotonic()
    try:
        async with asyncio.timeout(20):
            await Tracing(provider).close()
    finally:
        stuck.released.set()
    assert time.monotonic() - began >= FLUSH_SECONDS
