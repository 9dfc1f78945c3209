"""How values look on a page."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.events.json_text import encode
from service.ui.formats import (
    NameParts,
    draw_strip,
    indent_json,
    shorten_name,
    show_age,
    show_briefly,
    show_duration,
    show_ratio,
    show_reason,
    show_text,
    split_name,
)
from tests.builders import NOON


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 😀", "plain é 漢字 😀"),
        ("क्\u200dष", "क्\u200dष"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("a\r\n\tb\x1b\x00", r"a\r\n\tb\x1b\x00"),
        ("\ud800", r"\ud800"),
    ],
)
def test_no_character_of_a_name_is_invisible_or_turns_others(text: str, shown: str) -> None:
    assert show_text(text) == shown


def test_a_trace_keeps_its_lines() -> None:
    assert show_text("a\n\tb\x1b\r", lines=True) == "a\n\tb" + r"\x1b\r"
    assert show_text("a\r\nb", lines=True) == "a\nb"


def test_a_list_shows_no_more_of_a_name_than_there_is_room_for() -> None:
    assert show_briefly("x" * 8_000) == "x" * 400 + "…"
    parts = split_name("head." + "x" * 8_000 + "tail")
    assert len(parts.head + parts.middle + parts.tail) == 401
    assert parts.tail.endswith("tail")


@given(st.text(max_size=900))
def test_a_name_is_shortened_alike_as_a_whole_and_in_parts(name: str) -> None:
    parts = split_name(name)
    assert shorten_name(name) == parts.head + parts.middle + parts.tail


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("tests/test_a.py::test_b", NameParts("tests/test_a.py::", "", "test_b")),
        ("pkg.Class.method[a.b/c]", NameParts("pkg.Class.", "", "method[a.b/c]")),
        ("no separator", NameParts("", "", "no separator")),
        ("ends with a dot.", NameParts("", "", "ends with a dot.")),
        ("pkg." + "x" * 50, NameParts("pkg.", "x" * 28, "x" * 22)),
    ],
)
def test_the_end_of_a_name_distinguishes_it(name: str, parts: NameParts) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        ({}, "just now"),
        ({"seconds": 59}, "59\u00a0s ago"),
        ({"minutes": 90}, "1\u00a0h ago"),
        ({"days": 59}, "59\u00a0d ago"),
        ({"days": 62}, "1 Jul 2026"),
        ({"days": -3}, "in 3\u00a0d"),
        ({"days": -7, "seconds": 2}, "in 7\u00a0d"),
        ({"days": -7, "hours": 13}, "in 6\u00a0d"),
        ({"days": -1, "minutes": 10}, "in 1\u00a0d"),
        ({"hours": -1, "seconds": 1}, "in 1\u00a0h"),
        ({"seconds": -90}, "in 2\u00a0min"),
        ({"milliseconds": -53_500}, "in 54\u00a0s"),
    ],
)
def test_a_moment_is_shown_by_its_age_and_an_old_one_by_its_date(
    ago: dict[str, int], shown: str
) -> None:
    assert show_age(NOON - timedelta(**ago), NOON) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "unknown"),
        (0, "0\u00a0ms"),
        (0.0004, "<\u00a01\u00a0ms"),
        (0.001, "1\u00a0ms"),
        (0.25, "250\u00a0ms"),
        (1.25, "1.2\u00a0s"),
        (0.9994, "999\u00a0ms"),
        (0.9996, "1.0\u00a0s"),
        (9.96, "10\u00a0s"),
        (118, "118\u00a0s"),
        (119.7, "2\u00a0min"),
        (600, "10\u00a0min"),
        (3_569, "59\u00a0min"),
        (3_599, "1\u00a0h 00\u00a0min"),
        (7_199.6, "2\u00a0h 00\u00a0min"),
        (10_260, "2\u00a0h 51\u00a0min"),
    ],
)
def test_a_duration_is_shown_in_a_unit_of_its_size(seconds: float | None, shown: str) -> None:
    assert show_duration(seconds) == shown


def test_a_ratio_looks_like_zero_or_all_only_if_it_is() -> None:
    ratios = (0, 0.0001, 0.034, 0.5, 0.9999, 1)
    shown = [
        "0\u00a0%",
        "<\u00a00.1\u00a0%",
        "3.4\u00a0%",
        "50\u00a0%",
        ">\u00a099\u00a0%",
        "100\u00a0%",
    ]
    assert [show_ratio(ratio) for ratio in ratios] == shown


def test_a_strip_says_what_it_shows() -> None:
    strip = draw_strip(["passed", "failed", "flaky", "passed"])
    assert strip.label == "4 verdicts: 2 passed, 1 failed, 1 flaky; newest passed"
    # The newest verdict is the last of the twenty slots.
    assert dict(strip.paths)["pass"].endswith("M152 10h6v6h-6z")
    assert strip.width == 158
    assert draw_strip(["passed"]).label == "1 verdict: 1 passed; newest passed"


def test_a_reason_does_not_repeat_the_health_beside_it() -> None:
    assert show_reason("Flaky: 2 falls", "flaky") == "2 falls"
    assert show_reason("left out: silent", "unknown") == "left out: silent"


# With what separates values, and with quotes that are escaped.
TEXT = st.text(alphabet='{}[],:"\\é😀\n a', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_json_is_indented_as_the_standard_library_does(value: Any) -> None:
    indented = json.dumps(value, indent=2, ensure_ascii=False)
    assert indent_json(encode(value).decode(), 10_000) == indented


@given(VALUES, st.integers(0, 200))
def test_the_beginning_of_json_is_indented_alike(value: Any, end: int) -> None:
    text = encode(value).decode()
    cut = indent_json(text[:end], 10_000)
    # An empty list or object is one part, which may be cut in two.
    assert indent_json(text, 10_000).startswith(cut.rstrip("[{\n "))


def test_indentation_ends_with_what_is_shown() -> None:
    assert len(indent_json("[" * 100_000, 100)) < 200
