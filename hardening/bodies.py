"""Hostile bodies with the highest cost for their size: small, and valid or nearly valid."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from indexing.timestamps import format_timestamp, to_microseconds
from tests import spans

NDJSON: Final = "application/x-ndjson"
# The service's limits: decompressed bytes of a body, and bytes of a line to be parsed.
MAX_BYTES: Final = 32 * 2**20
LINE_BYTES: Final = 63_000


@dataclass(frozen=True)
class HostileBody:
    """A body to send, compressed if `packed`; `to` is `logs` or `traces`."""

    name: str
    to: str
    kind: str
    data: bytes = field(repr=False)
    packed: bool = False

    @property
    def headers(self) -> tuple[bytes, ...]:
        kind = b"Content-Type: " + self.kind.encode()
        return (kind, b"Content-Encoding: gzip") if self.packed else (kind,)


def lines(name: str, each: Sequence[bytes], *, packed: bool = True) -> HostileBody:
    """Build a body of event lines."""
    data = b"\n".join(each)
    return HostileBody(name, "logs", NDJSON, pack(data) if packed else data, packed)


def traces(name: str, content: bytes, kind: str = spans.JSON) -> HostileBody:
    """Build a compressed body of spans."""
    return HostileBody(name, "traces", kind, pack(content), packed=True)


def pack(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=6)


def make_event(number: int, kind: str, metadata: Any) -> dict[str, Any]:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    return {
        "id": number,
        "received_at": format_timestamp(at),
        "trigger": "rule",
        "repository": "umbrella/sender",
        "pull_request": None,
        "base_ref": None,
        "type": kind,
        "metadata": metadata,
    }


def leave_queue(number: int, evaluation: Any) -> dict[str, Any]:
    """Build an event with a tree of conditions; everything but the tree is valid."""
    return make_event(
        number,
        "action.queue.leave",
        {
            "reason": "merged",
            "merged": True,
            "queue_name": "default",
            "branch": "main",
            "partition_name": "one",
            "queued_at": "2026-01-01T00:00:00Z",
            "seconds_waiting_for_schedule": 0,
            "seconds_waiting_for_freeze": 0,
            "priority_rule_name": None,
            "conditions_evaluation": evaluation,
            "checks": [],
            "session_id": None,
        },
    )


def evaluation(subconditions: Sequence[Any] = ()) -> dict[str, Any]:
    """Build a valid node of a tree of conditions."""
    return {
        "match": True,
        "label": "x",
        "is_label_user_input": False,
        "description": None,
        "attribute_name": None,
        "operator": None,
        "schedule": None,
        "subconditions": list(subconditions),
        "evaluations": [],
    }


def nested(depth: int) -> dict[str, Any]:
    """Build a tree with a single branch."""
    node = evaluation()
    for _ in range(depth):
        node = evaluation([node])
    return node


def hostile_lines() -> list[HostileBody]:
    """Build event lines within the service's limit for a line."""
    empty = [orjson.dumps(leave_queue(n, evaluation([{}] * (LINE_BYTES // 3)))) for n in range(16)]
    node = len(orjson.dumps(evaluation())) + 1
    full = evaluation([evaluation()] * (LINE_BYTES // node - 3))
    labels = ["x" * 9] * (LINE_BYTES // 12 - 40)
    deep = orjson.dumps(leave_queue(1, nested(100)))
    numbers = make_event(2, "action.label", {"added": [0] * (LINE_BYTES // 2), "removed": []})
    unknown = make_event(3, "action.rebase", {f"m{n}": [] for n in range(LINE_BYTES // 11)})
    bad_text = make_event(4, "action.rebase", {"x": ["\0"] * (LINE_BYTES // 10)})
    conditions = b'{"not":' * (LINE_BYTES // 9) + b'"x"' + b"}" * (LINE_BYTES // 9)
    freeze = orjson.dumps(
        make_event(5, "scheduled_freeze.create", {"scheduled_freeze_attributes": "HERE"})
    ).replace(b'"HERE"', b'{"matching_conditions":' + conditions + b"}")
    brackets = orjson.dumps(make_event(6, "action.rebase", "HERE")).replace(
        b'"HERE"', b"[" * (LINE_BYTES // 2) + b"]" * (LINE_BYTES // 2)
    )
    million = orjson.dumps(leave_queue(7, evaluation([{}] * 340_000)))
    return [
        lines("one line of 21,000 empty subconditions", empty[:1], packed=False),
        lines("16 lines of 21,000 empty subconditions", empty),
        lines(
            "64 valid lines of 62 KB of subconditions",
            [orjson.dumps(leave_queue(10_000 + n, full)) for n in range(64)],
        ),
        lines(
            "64 valid lines of 62 KB of labels",
            [
                orjson.dumps(
                    make_event(20_000 + n, "action.label", {"added": labels, "removed": []})
                )
                for n in range(64)
            ],
        ),
        lines("500 lines of trees 100 deep", [deep] * 500),
        lines("64 lines of 31,000 wrong members", [orjson.dumps(numbers)] * 64),
        lines("64 lines of 5,700 unknown members", [orjson.dumps(unknown)] * 64),
        lines("64 lines of 6,300 NULs", [orjson.dumps(bad_text)] * 64),
        lines("64 lines of conditions 7,000 deep", [freeze] * 64),
        lines("500 lines of brackets 31,000 deep", [brackets] * 500),
        lines("30 lines of a megabyte of empty subconditions", [million] * 30),
        lines("100,000 lines that are no events", [b"{}" + b" " * 70] * 100_000),
        lines("400,000 blank lines", [b" " * 80] * 400_000),
    ]


def hostile_spans() -> list[HostileBody]:
    """Build requests of spans that decompress to the service's limit."""
    escaped = b"\\u0041" * (MAX_BYTES // 6 - 10)
    quotes = b'\\"' * (MAX_BYTES // 2 - 30)
    values = b"[" + b"{}," * 130_000 + b"{}]"
    numbers = b"[" + b"1e5," * 390_000 + b"0]"
    deep = b"[" * 200_000 + b"]" * 200_000
    members = b"{" + b",".join(b'"m%d":0' % n for n in range(190_000)) + b"}"
    bare = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 49_000 + b"{}]}]}]}"
    empty_spans = _field(2, b"\x12\x00" * 49_000)
    scopes = b"".join(_field(2, b"\x12\x00" * 1_000) for _ in range(1_000))
    attribute = _field(1, b"a") + _field(2, _field(1, b"x"))
    crowded = _field(2, _field(9, attribute) * 900)
    return [
        traces("32 MB of escaped JSON", b'{"resourceSpans":"' + escaped + b'"}'),
        traces("32 MB of quotes", b'{"resourceSpans":"' + quotes + b'"}'),
        traces("130,000 empty objects", b'{"x":' + values + b"}"),
        traces("390,000 numbers", b'{"x":' + numbers + b"}"),
        traces("brackets 200,000 deep", b'{"x":' + deep + b"}"),
        traces("190,000 members", members),
        traces("49,000 bare spans", bare),
        traces("49,000 bare spans of protobuf", _field(1, empty_spans), spans.PROTOBUF),
        traces("a million spans in a thousand scopes", _field(1, scopes), spans.PROTOBUF),
        traces(
            "1,000 spans of 900 attributes", _field(1, _field(2, crowded * 1_000)), spans.PROTOBUF
        ),
        traces("16 million unknown fields", b"\x78\x01" * (MAX_BYTES // 2 - 1), spans.PROTOBUF),
        # A gzip stream of many empty members.
        HostileBody(
            "500,000 empty members of gzip",
            "traces",
            spans.JSON,
            pack(b"") * 500_000,
            packed=True,
        ),
    ]


def _field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    size, written = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written) + content


def make_spans(
    first: int,
    count: int,
    at: datetime,
    *,
    run_id: int = 1,
    commit: str = "c0ffee",
    own_commits: bool = False,
) -> bytes:
    """Build a JSON request with passed tests of one run, as a plugin sends it.

    With `own_commits`, each span has its own commit and so its own run.
    """
    ended = to_microseconds(at) * 1_000
    spans_ = [
        _span(
            f"suite.test_{number:06}",
            "passed",
            ended,
            f"{run_id:016x}{number:016x}",
            f"{commit}{number}" if own_commits else commit,
        )
        for number in range(first, first + count)
    ]
    return _request(run_id, spans_)


def make_result(name: str, conclusion: str, nanoseconds: int, run_id: int) -> bytes:
    """Build a request with one result that ended this many nanoseconds after 1970."""
    return _request(run_id, [_span(name, conclusion, nanoseconds, f"{run_id:032x}", f"c{run_id}")])


def _request(run_id: int, spans_: Sequence[Any]) -> bytes:
    resource = {
        "cicd.pipeline.name": "ci",
        "cicd.pipeline.task.name": "unit",
        "cicd.pipeline.run.id": run_id,
        "vcs.ref.head.name": "main",
    }
    return orjson.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": _attributes(resource)},
                    "scopeSpans": [{"spans": spans_}],
                }
            ]
        }
    )


def _span(
    name: str, conclusion: str, nanoseconds: int, trace_id: str, commit: str
) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": f"{1:016x}",
        "name": name,
        "startTimeUnixNano": str(max(1, nanoseconds - 10**9)),
        "endTimeUnixNano": str(nanoseconds),
        "attributes": _attributes(
            {
                "test.scope": "case",
                "test.case.result.status": conclusion,
                "vcs.ref.head.revision": commit,
            }
        ),
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": k, "value": {"intValue": v} if isinstance(v, int) else {"stringValue": v}}
        for k, v in values.items()
    ]
