"""Which media type the `Accept` header prefers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http import accept
from service.http.accept import CSV, NDJSON, choose_row_format


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], None),
        ([""], None),
        (["*/*"], None),
        (["application/json"], None),
        (["application/*"], None),
        (["text/*"], None),
        (["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], None),
        ([NDJSON], NDJSON),
        (["Application/X-NDJSON"], NDJSON),
        (["text/csv; charset=utf-8"], CSV),
        ([f"{NDJSON}, */*"], NDJSON),
        ([f"{NDJSON}, application/json"], None),
        ([f"application/json, {CSV};q=0.9"], None),
        ([f"application/json;q=0.5, {CSV};q=0.9"], CSV),
        ([f"{CSV};q=0.4, {NDJSON};q=0.5, */*;q=0.1"], NDJSON),
        ([f"{CSV};q=0, */*"], None),
        (["application/json;q=0.1", CSV], CSV),
        ([f"{CSV};q=0.2, */*;q=0.9"], None),
        ([f"{CSV};q=much"], CSV),
    ],
)
def test_rows_are_streamed_to_those_who_prefer_them(accept: list[str], chosen: str | None) -> None:
    assert choose_row_format(accept) == chosen


@given(st.lists(st.text(alphabet="application/x-ndjsontextcsv*,;q=0.19 ", max_size=80)))
def test_any_header_can_be_read(accept: list[str]) -> None:
    assert choose_row_format(accept) in (None, NDJSON, CSV)


@pytest.mark.parametrize("element", [",", "a/b,", "a/b;x,", "a/b" + ";" * 8_000])
def test_little_of_a_megabyte_of_media_ranges_is_read(
    monkeypatch: pytest.MonkeyPatch, element: str
) -> None:
    read: list[list[str]] = []

    def note(parameters: Iterable[str]) -> float:
        read.append([*parameters])
        return 1.0

    monkeypatch.setattr(accept, "_quality_of", note)
    fields = [element * (8_000 // len(element) or 1)] * 120
    assert accept.choose_row_format(fields) is None
    assert len(read) <= 100
    assert max(map(len, read)) <= 10
