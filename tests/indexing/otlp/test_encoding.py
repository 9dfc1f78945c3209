"""Executions as spans: what a protocol decoder reads from the bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from indexing.failures.traces import pack_trace
from indexing.identifiers import derive_span_id, derive_trace_id
from indexing.models.executions import Conclusion, Execution
from indexing.otlp.encoding import (
    REQUEST_MAX_BYTES,
    encode_executions,
    fits_a_span,
)
from tests.builders import NOON, PULL, WIDGETS, make_executions, make_run

RUN = make_run("7", attempt=2, pull=PULL, job_url="https://ci.example/7")
OF_PULL = {
    "vcs.change.id": "17",
    "mergewatch.pull_request.id": 900,
    "mergewatch.pull_request.title": "Mend the hinge",
    "mergewatch.pull_request.user.id": 4,
    "mergewatch.pull_request.user.login": "mona",
}


def values_of(attributes: Any) -> dict[str, object]:
    """The attributes by name; no name occurs twice."""
    found: list[KeyValue] = list(attributes)
    values = {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in found}
    assert len(values) == len(found)
    return values


def decode(body: bytes) -> tuple[dict[str, object], list[Span]]:
    """The resource's attributes and the spans of a request with one resource."""
    (found,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return values_of(found.resource.attributes), [
        s for each in found.scope_spans for s in each.spans
    ]


def make(count: int = 1, **about: Any) -> list[Execution]:
    results = [(f"a.test {number}", Conclusion.PASSED) for number in range(count)]
    return make_executions(RUN, results, **about)


def test_a_request_contains_the_run_and_each_execution() -> None:
    failed = replace(
        make(framework="pytest", framework_version="9", language="python")[0],
        conclusion=Conclusion.FAILED,
        duration=1.5,
        filepath="a.py",
        function_name="test 0",
        failure_type="E",
        failure_message="wrong",
        failure_trace=pack_trace("at a.py"),
    )
    (batch,) = encode_executions(WIDGETS, RUN, [failed])
    resource, (span,) = decode(batch.body)
    assert resource == {
        "cicd.pipeline.name": "ci",
        "cicd.pipeline.task.name": "unit",
        "cicd.pipeline.run.id": "7",
        "cicd.pipeline.run.attempt": 2,
        "cicd.pipeline.task.run.url.full": "https://ci.example/7",
        "vcs.ref.head.name": "main",
        "vcs.ref.head.revision": "c0ffee",
        "test.framework": "pytest",
        "test.framework.version": "9",
        "test.language": "python",
        **OF_PULL,
    }
    assert values_of(span.attributes) == {
        "test.scope": "case",
        "test.case.name": "a.test 0",
        "test.case.result.status": "failed",
        "code.filepath": "a.py",
        "code.function": "test 0",
        "exception.type": "E",
        "exception.message": "wrong",
        "exception.stacktrace": "at a.py",
    }
    assert (span.name, span.status.code) == ("a.test 0", 2)
    assert span.end_time_unix_nano == int(NOON.timestamp()) * 10**9
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1_500_000_000
    assert batch.spans == 1


def test_what_is_not_known_is_left_out() -> None:
    bare = make_run()
    (batch,) = encode_executions(WIDGETS, bare, make_executions(bare, [("t", Conclusion.SKIPPED)]))
    resource, (span,) = decode(batch.body)
    assert not [name for name in (*resource, *values_of(span.attributes)) if "pull" in name]
    assert values_of(span.attributes)["test.case.result.status"] == "skipped"
    assert span.start_time_unix_nano == 0


def test_a_failure_without_a_message_stays_so() -> None:
    failed = replace(make()[0], conclusion=Conclusion.FAILED, failure_trace=pack_trace("a log"))
    (batch,) = encode_executions(WIDGETS, RUN, [failed])
    _, (span,) = decode(batch.body)
    attributes = values_of(span.attributes)
    assert "exception.message" not in attributes
    assert attributes["mergewatch.test.without_message"] is True
    assert attributes["exception.stacktrace"] == "a log"


def test_a_pass_that_needed_retries_says_so() -> None:
    (batch,) = encode_executions(WIDGETS, RUN, make(needed_retries=True))
    _, (span,) = decode(batch.body)
    assert values_of(span.attributes)["mergewatch.test.needed_retries"] is True


def test_the_same_executions_are_the_same_bytes_and_ids() -> None:
    executions = make(50)
    first = list(encode_executions(WIDGETS, RUN, executions))
    assert first == list(encode_executions(WIDGETS, RUN, executions))
    spans = [span for batch in first for span in decode(batch.body)[1]]
    assert [span.span_id for span in spans] == [derive_span_id(each.id) for each in executions]
    assert len({span.span_id for span in spans}) == 50
    assert {span.trace_id for span in spans} == {derive_trace_id(WIDGETS, RUN)}
    assert all(len(span.span_id) == 8 and len(span.trace_id) == 16 for span in spans)


def test_a_trace_is_one_run_of_one_job() -> None:
    others = [
        make_run("8", attempt=2),
        make_run("7"),
        make_run("7", attempt=2, job="lint"),
        make_run("7", attempt=2, pipeline="unit", job="ci"),
    ]
    assert len({derive_trace_id(WIDGETS, run) for run in (RUN, *others)}) == 5


def test_requests_are_bounded_and_lose_nothing() -> None:
    executions = [
        replace(each, failure_message="x" * 4_000, conclusion=Conclusion.FAILED)
        for each in make(500)
    ]
    batches = list(encode_executions(WIDGETS, RUN, executions))
    assert len(batches) > 1
    assert all(len(batch.body) < REQUEST_MAX_BYTES * 1.01 for batch in batches)
    spans = [span for batch in batches for span in decode(batch.body)[1]]
    assert [span.name for span in spans] == [each.test_name for each in executions]
    assert sum(batch.spans for batch in batches) == 500
    assert list(encode_executions(WIDGETS, RUN, [])) == []
    assert len(list(encode_executions(WIDGETS, RUN, make(3), max_bytes=1))) == 3


@pytest.mark.parametrize(
    ("year", "fits"), [(1, False), (1969, False), (1971, True), (2553, True), (9999, False)]
)
def test_a_span_cannot_express_every_year(year: int, fits: bool) -> None:
    (execution,) = make(at=datetime(year, 1, 1, tzinfo=UTC))
    assert fits_a_span(execution) is fits


@pytest.mark.parametrize("duration", [None, 0.0, 1e-12, 1e300])
def test_a_span_begins_no_earlier_than_time_itself(duration: float | None) -> None:
    (batch,) = encode_executions(WIDGETS, RUN, make(duration=duration))
    _, (span,) = decode(batch.body)
    assert 0 <= span.start_time_unix_nano <= span.end_time_unix_nano
