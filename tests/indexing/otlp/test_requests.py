"""Trace export requests in both encodings: the spans read, the refusals, and the limits."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from indexing.names import RepositoryName
from indexing.otlp.json_mapping import MAX_VALUES, read_json
from indexing.otlp.protobuf import MAX_FIELDS, read_protobuf
from indexing.otlp.requests import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_SPANS,
    SPAN_MAX_BYTES,
    DamagedSpan,
    ReceivedSpan,
    RequestError,
    RequestTooLargeError,
)
from indexing.otlp.results import MAX_RUNS, Results
from tests.builders import NOON, WIDGETS
from tests.growth import assert_linear
from tests.spans import RESOURCE, make_request, make_span, write_json

END = 1_780_000_000 * 10**9

PLACE = "resourceSpans[0].scopeSpans[0].spans"


def read_results(
    repository: RepositoryName, spans: Iterable[ReceivedSpan | DamagedSpan]
) -> Results:
    results = Results(repository, NOON)
    for span in spans:
        results.add(span)
    return results


def read_one_json(**members: Any) -> ReceivedSpan | DamagedSpan:
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "a", **members}
    (found,) = read_json(write_spans(span))
    return found


def write_spans(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def test_a_null_member_of_a_value_is_unset() -> None:
    value = {"stringValue": None, "intValue": "2"}
    found = read_one_json(attributes=[{"key": "a", "value": value}])
    assert isinstance(found, ReceivedSpan)
    assert found.attributes == {"a": 2}


def test_both_encodings_say_the_same() -> None:
    request = make_request(
        [make_span(), make_span("b", "failed", attributes={"exception.type": "E"})]
    )
    by_protobuf = [*read_protobuf(request.SerializeToString())]
    by_json = [*read_json(write_json(request))]
    assert by_protobuf == by_json
    assert [each.place for each in by_json] == [f"{PLACE}[0]", f"{PLACE}[1]"]


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3))
def test_the_walk_finds_what_a_decoder_finds(shape: list[list[int]]) -> None:
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                schema_url="https://a.example",
                scope_spans=[
                    ScopeSpans(schema_url="x", spans=[make_span(f"{at}") for at in range(count)])
                    for count in scopes
                ],
            )
            for scopes in shape
        ]
    )
    body = request.SerializeToString()
    found = [each.name for each in read_protobuf(body) if isinstance(each, ReceivedSpan)]
    decoded = ExportTraceServiceRequest.FromString(body)
    assert found == [s.name for r in decoded.resource_spans for c in r.scope_spans for s in c.spans]


@pytest.mark.parametrize(
    "members",
    [
        {"endTimeUnixNano": "1756728000000000000", "status": {"code": 2}},
        {"endTimeUnixNano": 1756728000000000000, "status": {"code": "STATUS_CODE_ERROR"}},
        {"endTimeUnixNano": 1756728000000000000.0, "status": {"code": 2}, "kind": "nonsense"},
        {"endTimeUnixNano": "1756728000000000000", "status": {"code": 2, "new": 1}, "newer": {}},
    ],
)
def test_json_numbers_and_enums_come_in_every_spelling(members: dict[str, Any]) -> None:
    found = read_one_json(**members)
    assert isinstance(found, ReceivedSpan)
    assert (found.ended, found.is_error) == (1756728000000000000, True)


def test_json_ids_are_hexadecimal_in_either_case() -> None:
    found = read_one_json(traceId="00" * 15 + "aB", spanId="00" * 7 + "Cd")
    assert isinstance(found, ReceivedSpan)
    assert (found.trace_id[-1], found.span_id[-1]) == (0xAB, 0xCD)


@pytest.mark.parametrize("wrong", ["xyz", 7, None, [], "AAAAAAAAAAAAAAAAAAAAAQ=="])
def test_a_json_id_that_is_none_rejects_its_span_alone(wrong: Any) -> None:
    found = read_one_json(traceId=wrong, endTimeUnixNano="1", attributes=_case())
    results = read_results(WIDGETS, [found])
    assert (results.rejected, results.runs) == (1, {})


@pytest.mark.parametrize(
    "members",
    [
        {"endTimeUnixNano": -1},
        {"endTimeUnixNano": "soon"},
        {"endTimeUnixNano": 2**64},
        {"endTimeUnixNano": 10**30},
        {"endTimeUnixNano": 1.5},
        {"endTimeUnixNano": True},
        {"endTimeUnixNano": {}},
        {"name": 7},
        {"attributes": "no"},
        {"attributes": [7]},
        {"attributes": {"key": "a"}},
        {"attributes": [{"key": "a", "value": {"intValue": "x"}}]},
        {"status": 2},
        {"status": {"message": 2}},
        {"events": [7]},
        {"attributes": [{"key": "a", "value": {"stringValue": 7}}]},
        {"attributes": [{"key": "a", "value": {"intValue": True}}]},
        {"attributes": [{"key": "a", "value": {"doubleValue": True}}]},
        {"attributes": [{}] * (MAX_ATTRIBUTES + 1)},
        {"events": [{}] * (MAX_EVENTS + 1)},
        {"traceId": "xy"},
    ],
)
def test_an_invalid_json_span_is_damaged_and_has_its_position(members: dict[str, Any]) -> None:
    fine, damaged = read_json(write_spans({}, members))
    assert isinstance(fine, ReceivedSpan)
    assert isinstance(damaged, DamagedSpan), damaged
    assert damaged.place == f"{PLACE}[1]"
    assert damaged.reason


def test_a_lone_surrogate_in_a_failure_is_replaced() -> None:
    request = make_request([make_span("a", "failed", attributes={"exception.message": "@"})])
    body = write_json(request).replace(b'"@"', rb'"a\ud800b"')
    results = read_results(WIDGETS, read_json(body))
    assert results.error_message == ""
    ((failed,),) = results.runs.values()
    assert (failed.test_name, failed.failure_message) == ("a", "a\ufffdb")


def test_a_lone_surrogate_rejects_its_span_alone() -> None:
    member = b'"traceId":"%032d","spanId":"%016d","endTimeUnixNano":%d' % (1, 1, END)
    case = b'"attributes":[{"key":"test.scope","value":{"stringValue":"case"}}]'
    spans = b",".join(b'{"name":"%s",%s,%s}' % (name, member, case) for name in (b"\\ud800", b"a"))
    resource = orjson.dumps(
        {"attributes": [{"key": k, "value": {"stringValue": str(v)}} for k, v in RESOURCE.items()]}
    )
    body = b'{"resourceSpans":[{"resource":%s,"scopeSpans":[{"spans":[%s]}]}]}' % (resource, spans)
    results = read_results(WIDGETS, read_json(body))
    assert [[each.test_name for each in runs] for runs in results.runs.values()] == [["a"]]
    assert (
        results.error_message == f"{PLACE}[0]: the name of the test must not hold a lone surrogate"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b"[]", "the request must be an object"),
        (b"null", "the request must be an object"),
        (b'{"resourceSpans":{}}', "resourceSpans must be an array"),
        (b'{"resourceSpans":[7]}', r"resourceSpans\[0\] must be an object"),
        (b'{"resourceSpans":[{"resource":[]}]}', r"resourceSpans\[0\].resource must be an object"),
        (b'{"resourceSpans":[{"resource":{"attributes":7}}]}', r"resourceSpans\[0\].resource: "),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":7}]}]}', r"scopeSpans\[0\].spans must be"),
        (b"[" * 60 + b"]" * 60, "nested deeper"),
        (b"[" * 100_000, "the request is not JSON"),
    ],
)
def test_json_that_is_no_request_is_refused_with_the_place(body: bytes, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        [*read_json(body)]


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans":null}', b'{"resourceSpans":[]}'])
def test_a_request_may_be_empty(body: bytes) -> None:
    assert [*read_json(body)] == []
    assert [*read_protobuf(b"")] == []


@pytest.mark.parametrize(
    "body",
    [
        b"hello, world",
        b"\x0a\x05\x12",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0b",
        b"\x08",
        b"\x09123",
        b"\x0a\x04\x0a\x02\x0a\x09",
    ],
)
def test_bytes_that_are_no_request_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match=r"protobuf"):
        [*read_protobuf(body)]


def test_a_damaged_span_leaves_its_neighbours() -> None:
    request = make_request([make_span("a"), make_span("b"), make_span("c")])
    body = request.SerializeToString().replace(b"\x01b", b"\x01\xff")
    assert [type(found) for found in read_protobuf(body)] == [
        ReceivedSpan,
        DamagedSpan,
        ReceivedSpan,
    ]


def test_a_span_that_is_too_large_leaves_its_neighbours() -> None:
    huge = make_span("b", attributes={"exception.stacktrace": "x" * SPAN_MAX_BYTES})
    found = [*read_protobuf(make_request([huge, make_span()]).SerializeToString())]
    assert isinstance(found[0], DamagedSpan)
    assert isinstance(found[1], ReceivedSpan)


def _case() -> list[Any]:
    return [{"key": "test.scope", "value": {"stringValue": "case"}}]


def _nest(spans: bytes) -> bytes:
    """Wrap the bytes of spans in the messages that contain them."""
    for tag in (b"\x12", b"\x0a"):
        length = len(spans)
        varint = bytearray()
        while length > 0x7F:
            varint.append(length & 0x7F | 0x80)
            length >>= 7
        varint.append(length)
        spans = tag + bytes(varint) + spans
    return spans


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reader"),
    [
        (_nest(b"\x12\x00" * (MAX_SPANS + 1)), read_protobuf),
        (_nest(b"\x12\x00" * 4_000_000), read_protobuf),
        (_nest(b"\x18\x00" * (MAX_FIELDS + 1)), read_protobuf),
        (b"\x0a\x00" * 4_000_000, read_protobuf),
        (b'{"resourceSpans":[' + b"{}," * MAX_VALUES + b"{}]}", read_json),
        (
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * MAX_SPANS + b"{}]}]}]}",
            read_json,
        ),
    ],
    ids=["spans", "many spans", "members", "resources", "values", "JSON spans"],
)
def test_a_small_body_does_not_become_a_large_load(body: bytes, reader: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLargeError):
            for _ in reader(body):
                pass
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_marks_within_text_are_no_values() -> None:
    trace = ',[{"' * MAX_VALUES + "\\"
    found = read_one_json(status={"message": trace})
    assert isinstance(found, ReceivedSpan)
    assert found.status_message == trace


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\", b'\\","'])
def test_looking_past_text_takes_one_pass(piece: bytes) -> None:
    def prepare(pieces: int) -> Callable[[], None]:
        body = b'{"a":"' + b"," * MAX_VALUES + piece * pieces

        def read() -> None:
            with pytest.raises(RequestError):
                [*read_json(body)]

        return read

    assert_linear(prepare, 4_000)


def test_a_request_of_too_many_runs_is_refused() -> None:
    spans = [
        make_span(attributes={"cicd.pipeline.run.id": number}) for number in range(MAX_RUNS + 1)
    ]
    body = make_request(spans).SerializeToString()
    with pytest.raises(RequestTooLargeError, match="runs"):
        read_results(WIDGETS, read_protobuf(body))


def test_rejected_spans_are_reported_once_for_each_reason() -> None:
    spans = [make_span(""), make_span("a"), make_span(""), make_span("b", trace_id=bytes(16))]
    body = make_request(spans).SerializeToString()
    results = read_results(RepositoryName("acme", "widgets"), read_protobuf(body))
    assert [len(executions) for executions in results.runs.values()] == [1]
    assert results.rejected == 3
    assert results.error_message == (
        f"{PLACE}[0]: the name of the test must not be empty (and 1 more spans); "
        f"{PLACE}[3]: traceId must be 16 bytes that are not all zero"
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["attributes", "key", "value", "stringValue", "intValue", "arrayValue", "values",
             "name", "traceId", "spanId", "status", "code", "events", "endTimeUnixNano"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_no_json_span_breaks_the_reader(value: Any) -> None:
    span = value if isinstance(value, dict) else {"attributes": value}
    body = write_spans(span)
    for found in read_json(body):
        assert isinstance(found, ReceivedSpan | DamagedSpan)
    read_results(WIDGETS, read_json(body))


@given(st.binary(max_size=100))
def test_no_span_of_garbage_breaks_the_reader(garbage: bytes) -> None:
    wrapped = _nest(b"\x12" + bytes((len(garbage),)) + garbage)
    for body in (garbage, wrapped):
        with suppress(RequestError):
            read_results(WIDGETS, read_protobuf(body))
