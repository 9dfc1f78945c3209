"""Stack traces: the head and the tail of long ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexing.failures.traces import (
    GAP,
    TRACE_MAX_BYTES,
    TraceBuffer,
    bound_trace,
    pack_trace,
    unpack_trace,
)
from tests.growth import assert_linear


def collect(*pieces: str) -> str | None:
    buffer = TraceBuffer()
    for piece in pieces:
        buffer.add(piece)
    return buffer.text()


def test_a_trace_within_the_limit_is_kept_whole_without_blank_lines_around_it() -> None:
    text = "  File hinge.py\n    é\n"
    assert bound_trace("\n" + text + " \n") == text.rstrip()
    assert collect("\n", text, "\n") == text.rstrip()
    assert bound_trace("x" * TRACE_MAX_BYTES) == "x" * TRACE_MAX_BYTES


def test_a_blank_trace_is_none() -> None:
    assert bound_trace(" \n\t") is None
    assert collect() is collect("\n", " ") is None


@given(
    st.lists(
        st.sampled_from(["a", "é", "🧪" * 3, "line\n", "x" * 5_000, "日本" * 9_000]), max_size=40
    )
)
def test_the_head_and_the_tail_of_a_long_trace_are_kept(pieces: list[str]) -> None:
    text = "".join(pieces)
    kept = collect(*pieces)
    assert kept == bound_trace(text)
    if kept is None:
        return
    assert len(kept.encode()) <= TRACE_MAX_BYTES
    assert bound_trace(kept) == kept
    assert unpack_trace(pack_trace(kept)) == kept
    if GAP in kept:
        head, tail = kept.split(GAP)
        stripped = text.strip("\r\n").rstrip()
        assert stripped.startswith(head)
        assert stripped.endswith(tail)
        assert len(kept.encode()) > TRACE_MAX_BYTES - 10


def test_collecting_takes_linear_time_whatever_the_pieces() -> None:
    assert_linear(lambda size: lambda: collect(*["x"] * size), 50_000)
