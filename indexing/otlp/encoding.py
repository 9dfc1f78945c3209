"""Encodes executions as OTLP trace export requests, deterministically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from indexing.failures.traces import unpack_trace
from indexing.identifiers import derive_span_id, derive_trace_id
from indexing.models.executions import Conclusion, Execution, Run
from indexing.names import RepositoryName
from indexing.otlp import attributes as names
from indexing.timestamps import to_microseconds

Value = str | int | bool | None

# Well below one megabyte, the common default limit of web servers.
REQUEST_MAX_BYTES: Final = 768 * 1024

_NANOSECONDS_A_MICROSECOND: Final = 1_000
# The times of a span are unsigned nanoseconds since 1970 in 64 bits, which end in the year 2554.
_MAX_NANOSECONDS: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The body of one request, and the number of its spans."""

    body: bytes
    spans: int


def encode_executions(
    repository: RepositoryName,
    run: Run,
    executions: Sequence[Execution],
    max_bytes: int = REQUEST_MAX_BYTES,
) -> Iterator[EncodedBatch]:
    """Yield requests that together hold one span for each execution, in order.

    None has more than about `max_bytes`, unless a single span is larger. The trace id derives from
    the run and the span id from the execution's id, so a receiver recognises executions that it
    already has. All executions must satisfy `fits_a_span`.
    """
    resource = ResourceSpans()
    trace_id = derive_trace_id(repository, run)
    of_run = _pull_attributes(run)
    pending: list[Span] = []
    size = 0
    written: tuple[str | None, ...] = ()
    for execution in executions:
        metadata = (execution.framework, execution.framework_version, execution.language)
        span = _to_span(trace_id, execution)
        grown = size + span.ByteSize()
        if pending and (grown > max_bytes or metadata != written):
            yield _finish(resource, pending)
            pending, grown = [], span.ByteSize()
        if not pending:
            resource = _to_resource(run, of_run, execution)
            grown += resource.ByteSize()
            written = metadata
        pending.append(span)
        size = grown
    if pending:
        yield _finish(resource, pending)


def fits_a_span(execution: Execution) -> bool:
    """Return whether a span can hold the finish time: after 1970, and before 2554."""
    return 0 < _end_of(execution) <= _MAX_NANOSECONDS


def _finish(resource: ResourceSpans, spans: Sequence[Span]) -> EncodedBatch:
    resource.scope_spans.add(spans=spans)
    request = ExportTraceServiceRequest(resource_spans=[resource])
    return EncodedBatch(request.SerializeToString(deterministic=True), len(spans))


def _to_resource(run: Run, of_run: Sequence[KeyValue], execution: Execution) -> ResourceSpans:
    resource = ResourceSpans()
    resource.resource.attributes.extend(
        _to_attributes(
            {
                names.PIPELINE_NAME: run.pipeline_name,
                names.TASK_NAME: run.job_name,
                names.RUN_ID: run.run_id,
                names.RUN_ATTEMPT: run.attempt,
                names.TASK_RUN_URL: run.job_url,
                names.HEAD_NAME: run.branch,
                names.HEAD_REVISION: run.commit,
                names.TEST_FRAMEWORK: execution.framework,
                names.TEST_FRAMEWORK_VERSION: execution.framework_version,
                names.TEST_LANGUAGE: execution.language,
            }
        )
    )
    resource.resource.attributes.extend(of_run)
    return resource


def _pull_attributes(run: Run) -> Sequence[KeyValue]:
    """Return the known attributes of the run's pull request."""
    pull = run.pull
    return _to_attributes(
        {
            names.CHANGE_ID: None if run.pull_number is None else str(run.pull_number),
            names.PULL_REQUEST_ID: pull.id if pull else None,
            names.PULL_REQUEST_TITLE: pull.title if pull else None,
            names.PULL_REQUEST_USER_ID: pull.user_id if pull else None,
            names.PULL_REQUEST_USER_LOGIN: pull.user_login if pull else None,
        }
    )


def _to_span(trace_id: bytes, execution: Execution) -> Span:
    end = _end_of(execution)
    # A start of 0 means that the duration is unknown.
    start = 0
    if execution.duration is not None:
        start = end - round(min(execution.duration * 1e9, end - 1))
    failed = execution.conclusion is Conclusion.FAILED
    span = Span(
        trace_id=trace_id,
        span_id=derive_span_id(execution.id),
        name=execution.test_name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start,
        end_time_unix_nano=end,
        status=Status(code=Status.STATUS_CODE_ERROR if failed else Status.STATUS_CODE_UNSET),
    )
    span.attributes.extend(
        _to_attributes(
            {
                names.TEST_SCOPE: names.CASE_SCOPE,
                names.TEST_CASE_NAME: execution.test_name,
                names.TEST_CASE_RESULT_STATUS: execution.conclusion.value,
                names.TEST_NEEDED_RETRIES: execution.needed_retries or None,
                names.CODE_FILEPATH: execution.filepath,
                names.CODE_FUNCTION: execution.function_name,
                names.EXCEPTION_TYPE: execution.failure_type,
                names.EXCEPTION_MESSAGE: execution.failure_message,
                names.TEST_WITHOUT_MESSAGE: _lacks_message(execution) or None,
                names.EXCEPTION_STACKTRACE: None
                if execution.failure_trace is None
                else unpack_trace(execution.failure_trace),
            }
        )
    )
    return span


def _lacks_message(execution: Execution) -> bool:
    """Whether a reader would take the stack trace for the message, which the failure lacks."""
    return execution.failure_message is None and execution.failure_trace is not None


def _end_of(execution: Execution) -> int:
    return to_microseconds(execution.finished_at) * _NANOSECONDS_A_MICROSECOND


def _to_attributes(values: dict[str, Value]) -> list[KeyValue]:
    """Return one attribute for each value that is not None."""
    return [
        KeyValue(key=name, value=_to_value(value))
        for name, value in values.items()
        if value is not None
    ]


def _to_value(value: str | int | bool) -> AnyValue:  # noqa: FBT001 - the value itself
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value)
