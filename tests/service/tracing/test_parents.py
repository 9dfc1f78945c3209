"""The parent of a request's trace, and whether the client's sampling decision counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import CIMultiDict
from opentelemetry.trace import format_span_id

from service.config.settings import Settings
from tests.service.front_door import (
    QUARANTINES,
    SEARCH,
    FrontDoor,
)
from tests.service.tracing.conftest import (
    Spans,
    attributes_of,
    ids_of,
    is_root,
    open_traced,
    open_tracing,
)

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


async def test_the_trace_of_the_client_goes_on(traced: FrontDoor, spans: Spans) -> None:
    await traced.get(
        QUARANTINES, traceparent=TRACEPARENT, tracestate="mona=1,b=2", baggage="user=mona"
    )
    request, parts = spans.take_request()
    assert request.parent is not None
    assert request.parent.is_remote
    assert format_span_id(request.parent.span_id) == PARENT_ID
    assert {ids_of(span)[0] for span in (request, *parts)} == {TRACE_ID}
    assert request.context.trace_state.to_header() == "mona=1,b=2"


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", "")],
        [("traceparent", "mona")],
        [("traceparent", TRACEPARENT.upper())],
        [("traceparent", TRACEPARENT.replace("00-", "ff-", 1))],
        [("traceparent", f"{TRACEPARENT}-{'0' * 6_000}")],
        [("traceparent", f"01{TRACEPARENT[2:]}-{'0' * 6_000}")],
        [("traceparent", f"00-{'0' * 32}-{PARENT_ID}-01")],
        [("traceparent", f"00-{TRACE_ID}-{'0' * 16}-01")],
        [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
    ],
    ids=[
        "empty",
        "a word",
        "capitals",
        "no version",
        "too long",
        "too long, of a later version",
        "no trace",
        "no parent",
        "two",
    ],
)
async def test_a_malformed_parent_is_ignored_without_a_word(
    traced: FrontDoor,
    spans: Spans,
    headers: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = ("Authorization", f"Bearer {traced.key}")
    assert (await traced.ask(QUARANTINES, CIMultiDict([key, *headers]))).status == 200
    request, _ = spans.take_request()
    assert is_root(request)
    assert caplog.records == []


async def test_a_huge_tracestate_is_dropped_but_the_parent_is_used(
    traced: FrontDoor, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    state = CIMultiDict([("tracestate", f"a{n}={'x' * 200}") for n in range(30)])
    state.extend({"Authorization": f"Bearer {traced.key}", "traceparent": TRACEPARENT})
    await traced.ask(QUARANTINES, state)
    request, _ = spans.take_request()
    assert ids_of(request)[0] == TRACE_ID
    assert not request.context.trace_state
    assert caplog.records == []


async def test_an_operator_may_take_no_parents(tmp_path: Path, spans: Spans) -> None:
    tracing = open_tracing(spans, takes_parents=False)
    async with open_traced(Settings(data_dir=tmp_path), tracing) as traced:
        await traced.get(QUARANTINES, traceparent=TRACEPARENT)
    request, _ = spans.take_request()
    assert is_root(request)


async def test_what_is_not_sampled_has_no_parts(tmp_path: Path, spans: Spans) -> None:
    tracing = open_tracing(spans, root_ratio=0)
    async with open_traced(Settings(data_dir=tmp_path), tracing) as traced:
        for _ in range(5):
            assert (await traced.get(QUARANTINES)).status == 200
        assert spans.take() == []
        # The client decided to sample this one.
        await traced.get(SEARCH + "?test_name=*", traceparent=TRACEPARENT)
        request, parts = spans.take_request()
        assert parts
        await traced.get(SEARCH + "?test_name=?", traceparent=f"{TRACEPARENT[:-1]}0")
        assert spans.take() == []
    assert ids_of(request)[0] == TRACE_ID


async def test_a_repeated_request_continues_the_trace_that_it_names(
    traced: FrontDoor, spans: Spans
) -> None:
    tag = (await traced.get(QUARANTINES)).headers["ETag"]
    for _ in range(4):
        spans.take()
        named = {"traceparent": TRACEPARENT, "If-None-Match": tag}
        assert (await traced.get(QUARANTINES, **named)).status == 304
        span, _ = spans.take_request()
        assert ids_of(span)[0] == TRACE_ID
        assert attributes_of(span)["http.response.status_code"] == 304
