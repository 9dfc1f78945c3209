"""Views of the event log, trees of metadata and the reference as values: without a browser."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from indexing.events.catalogue import CATALOGUE
from indexing.timestamps import format_timestamp
from service.http.field_errors import FieldError
from service.http.problems import Problem
from service.http.targets import CURSOR_BYTES
from service.openapi import build_document
from service.ui.event_counts import draw_histogram, list_facets
from service.ui.event_view import (
    FROM,
    MAX_FILTERS_LENGTH,
    EventView,
    explain_error,
    normalize_moment,
    show_moment,
)
from service.ui.queries import MAX_QUERY_LENGTH, read_pairs, write_pairs
from service.ui.reference import make_curl, read_document
from service.ui.trees import MAX_DEPTH, Budget, Node, draw_tree
from tests.builders import NOON, after
from tests.service.ui.logged import nest


def test_a_view_asks_for_its_own_range_or_for_the_last_days() -> None:
    assert EventView.read("").ask(NOON) == [("received_from", "2026-08-25T12:00:00Z")]
    assert EventView.read("last=1d").ask(NOON) == [("received_from", "2026-08-31T12:00:00Z")]
    asked = EventView.read("received_to=2026-08-01&last=1d&per_page=9&other=1").ask(NOON)
    assert asked == [("received_to", "2026-08-01T00:00:00Z")]


def test_what_a_view_writes_it_reads_back() -> None:
    query = "outcome=failure&received_from=2026-08-01T10:00:00Z&around_from=a&around_to=b"
    view = EventView.read(query)
    assert EventView.read(view.query()) == view
    assert read_pairs(EventView.read("last=30d").query()) == [("last", "30d")]
    assert show_moment(normalize_moment("2026-08-01 10:20")) == "2026-08-01 10:20"
    assert show_moment(normalize_moment("2026-08-01 10:20:15.5")) == "2026-08-01 10:20:15.5"
    for fraction in ("5", "123456", "123456789"):
        written = f"2026-08-01T10:20:15.{fraction}Z"
        assert normalize_moment(show_moment(written)) == written


@pytest.mark.parametrize(
    ("whole", "written"),
    [
        ("", ""),
        ("outcome=failure&last=30d", "outcome=failure&last=30d"),
        (
            "received_from=2026-01-01&received_to=2026-01-02",
            "received_from=2026-01-01T00%3A00%3A00Z&received_to=2026-01-02T00%3A00%3A00Z",
        ),
    ],
)
def test_a_part_of_a_range_leads_back_to_all_of_it(whole: str, written: str) -> None:
    day = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    part = EventView.read(whole).with_range(*day, around=day)
    again = EventView.read(part.query())
    assert again == part
    assert again.with_whole_range().query() == written
    # A part of that part, and another page of it.
    smaller = again.with_range(day[0], "2026-01-01T12:00:00Z", around=day)
    page = EventView.read(write_pairs(smaller.walk(smaller.ask(NOON))))
    assert page.with_whole_range().query() == written


def test_numbers_of_pull_requests_are_compared_as_numbers() -> None:
    view = EventView.read("pull_request=0017&pull_request=17&not_pull_request=00&trigger=007")
    assert view.filters == [
        ("pull_request", "17"),
        ("not_pull_request", "0"),
        ("trigger", "007"),
    ]
    assert EventView.read("pull_request=x1").filters == [("pull_request", "x1")]


@pytest.mark.parametrize("written", ["444", "#444", " #0444 ", "#444 "])
def test_a_pull_request_may_be_written_as_pages_show_it(written: str) -> None:
    query = write_pairs([("pull_request", written), ("not_pull_request", written)])
    assert EventView.read(query).filters == [("pull_request", "444"), ("not_pull_request", "444")]


def test_a_number_that_is_too_large_is_not_said_to_be_none() -> None:
    error = FieldError("query", "pull_request", "must be at most 9")
    assert explain_error(error, "#10") == "must be at most 9"
    assert explain_error(error, "##10") == "must be the number of a pull request, such as 17"


def test_a_filter_replaces_its_opposite_and_goes_when_it_is_toggled_again() -> None:
    view = EventView.read("outcome=failure&cursor=x").toggle("not_outcome", "failure")
    assert (view.filters, view.cursor) == ([("not_outcome", "failure")], "")
    assert view.toggle("outcome", "failure").filters == [("outcome", "failure")]
    assert view.toggle("not_outcome", "failure").filters == []


def test_a_facet_shows_what_is_filtered_by_even_if_nothing_has_it() -> None:
    counts: dict[str, Any] = {
        "by_outcome": [],
        "by_event_type": [],
        "by_trigger": [{"value": "t" * 256, "count": 2}, {"value": "", "count": 1}],
        "by_pull_request": [{"value": number, "count": 1} for number in range(100)],
    }
    view = EventView.read("pull_request=444&not_outcome=failure")
    outcome, _, trigger, pulls = list_facets(counts, view)
    assert [(each.value, each.is_left_out) for each in outcome.shown] == [("failure", True)]
    # No filter finds these.
    assert [each.toggle for each in trigger.shown] == [None, None]
    assert [each.value for each in pulls.shown if each.is_chosen] == ["444"]
    assert (len(pulls.shown), len(pulls.more), pulls.is_cut) == (6, 31, True)


def test_all_types_of_events_can_be_filtered_by() -> None:
    counts: dict[str, Any] = {
        "by_outcome": [],
        "by_event_type": [{"value": each, "count": 1} for each in CATALOGUE],
        "by_trigger": [],
        "by_pull_request": [],
    }
    _, types, _, _ = list_facets(counts, EventView.read(""))
    assert [each.value for each in (*types.shown, *types.more)] == [*CATALOGUE]
    assert not types.is_cut


def test_a_query_that_would_make_a_page_of_long_links_is_refused() -> None:
    with pytest.raises(Problem, match="at most 4000"):
        EventView.read("x" * (MAX_QUERY_LENGTH + 1))
    with pytest.raises(Problem, match="at most 3500"):
        EventView.read("trigger=" + "x" * MAX_FILTERS_LENGTH)


def test_a_facet_offers_no_view_that_would_be_refused() -> None:
    triggers = [chr(0x1F600 + number) * 255 for number in range(2)]
    counts: dict[str, Any] = {
        "by_outcome": [{"value": "success", "count": 1}],
        "by_event_type": [],
        "by_trigger": [{"value": each, "count": 1} for each in triggers],
        "by_pull_request": [],
    }
    _, _, trigger, _ = list_facets(counts, EventView.read(""))
    assert all(each.toggle and each.leave_out for each in trigger.shown)
    view = EventView.read(trigger.shown[0].toggle or "")
    outcome, _, trigger, _ = list_facets(counts, view)
    chosen, other = trigger.shown
    assert (other.toggle, other.leave_out) == (None, None)
    for query in (chosen.toggle, chosen.leave_out, outcome.shown[0].toggle):
        assert query is not None
        long = f"{query}&received_from={'9' * 40}&received_to={'9' * 40}&around_from={'9' * 40}"
        EventView.read(f"{long}&around_to={'9' * 40}&cursor={'c' * CURSOR_BYTES}&event={2**63}")


@pytest.mark.parametrize(
    ("ranged", "is_inside"),
    [
        ("received_to=2026-01-01T10:00:00Z", True),
        ("received_to=2026-01-05", False),
        # There is no day before it.
        ("received_to=0001-01-01", False),
        # The API refuses these ranges, but not the one around them.
        ("received_to=soon", False),
        ("received_from=soon", False),
    ],
)
def test_a_bar_is_marked_if_the_range_of_the_view_has_a_part_of_it(
    ranged: str, is_inside: bool
) -> None:
    around = "around_from=2026-01-01T00:00:00Z&around_to=2026-01-02T00:00:00Z"
    counts = {
        "histogram": [{"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z", "count": 1}],
        "interval_size_seconds": 86_400,
        "total": 1,
    }
    histogram = draw_histogram(counts, EventView.read(f"{ranged}&{around}"), {})
    assert [bar.is_inside for bar in histogram.bars] == [is_inside]


@pytest.mark.parametrize(
    ("days", "label", "ticks"),
    [
        (
            ["2025-12-31", "2026-01-01", "2026-01-02"],
            "31 Dec 2025, 00:00 to 1 Jan 2026, 00:00: 1",
            ["31 Dec 2025, 00:00", "12:00", "1 Jan 2026, 00:00", "12:00", "2 Jan 2026, 00:00"],
        ),
        (
            ["2025-12-29", "2025-12-30", "2025-12-31"],
            "29 Dec, 00:00 to 30 Dec, 00:00: 1",
            ["29 Dec, 00:00", "12:00", "30 Dec, 00:00", "12:00", "31 Dec, 00:00"],
        ),
    ],
    ids=["over two years", "within one"],
)
def test_times_of_the_histogram_have_the_year_if_the_range_is_not_within_one(
    days: list[str], label: str, ticks: list[str]
) -> None:
    moments = [f"{day}T00:00:00Z" for day in days]
    counts = {
        "histogram": [{"start": start, "end": end, "count": 1} for start, end in pairwise(moments)],
        "interval_size_seconds": 86_400,
        "total": 2,
    }
    histogram = draw_histogram(counts, EventView.read(""), {})
    assert histogram.bars[0].label == label
    assert histogram.ticks == ticks


@pytest.mark.parametrize(
    ("seconds", "label", "ticks"),
    [
        (60.0, "1 Sep, 11:00 to 1 Sep, 11:01: 1", ["1 Sep, 11:00", "11:10", "11:20"]),
        (30.0, "1 Sep, 11:00:00 to 1 Sep, 11:00:30: 1", ["1 Sep, 11:00:00", "11:05:00"]),
        (0.5, "1 Sep, 11:00:00.000000 to 1 Sep, 11:00:00.500000: 1", ["1 Sep, 11:00:00.000000"]),
    ],
)
def test_times_of_the_histogram_are_as_exact_as_its_bars_are_long(
    seconds: float, label: str, ticks: list[str]
) -> None:
    moments = [after(hours=-1, seconds=seconds * number) for number in range(41)]
    counts = {
        "histogram": [
            {"start": format_timestamp(start), "end": format_timestamp(end), "count": 1}
            for start, end in pairwise(moments)
        ],
        "interval_size_seconds": seconds,
        "total": 40,
    }
    histogram = draw_histogram(counts, EventView.read(""), {})
    assert histogram.bars[0].label == label
    assert histogram.ticks[: len(ticks)] == ticks
    assert len({bar.label for bar in histogram.bars}) == len(histogram.bars)


def test_a_tree_is_bounded_in_depth_members_and_characters() -> None:
    def depth_of(nodes: Any) -> int:
        return 1 + max((depth_of(node.children) for node in nodes), default=0) if nodes else 0

    deep = draw_tree({"a": nest(50, "core")}, Budget(100, 1_000))
    assert depth_of(deep) == MAX_DEPTH + 1
    assert "core" in str(deep)
    budget = Budget(10, 1_000)
    assert len(draw_tree({str(number): 1 for number in range(99)}, budget)) == 10
    assert budget.is_spent
    budget = Budget(10, 100)
    assert len(draw_tree({"a": "x" * 65_000}, budget)[0].text) <= 101
    assert budget.is_spent
    assert draw_tree({"a": None, "b": []}, Budget(9, 99)) == [
        Node("a", "null", "null"),
        Node("b", "text", "[]"),
    ]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://ci.example/1", "link"),
        ("javascript:alert(1)", "text"),
        ("https://ci.example/\u202e", "text"),
        ("https://ci.example/ other", "text"),
        ("https://ci.example/\nother", "text"),
    ],
    ids=["plain", "script", "turned", "two words", "two lines"],
)
def test_only_addresses_that_show_as_they_are_become_links(url: str, kind: str) -> None:
    assert draw_tree({"url": url}, Budget(9, 999))[0].kind == kind


def test_a_tree_keeps_the_lines_of_a_text() -> None:
    assert draw_tree({"a": "one\r\ntwo\x1b"}, Budget(9, 999))[0].text == "one\ntwo\\x1b"


def test_a_command_for_curl_is_one_call_whatever_the_values_hold() -> None:
    operations = read_document(build_document(None, ingest=True))
    given = {"owner": ["acme"], "repository": ["'; rm -rf ~ #"], "trigger": ["$(id) & x"]}
    command = make_curl(operations["listEvents"], "https://mw.example", given)
    assert command.endswith(
        "https://mw.example/v1/repos/acme/%27%3B%20rm%20-rf%20~%20%23/logs"
        "?trigger=%24%28id%29%20%26%20x'"
    )
    # A glob is readable, and a required choice has a value that the API takes.
    given = {"test_name": ["*login & out*"]}
    assert "?test_name=*login%20%26%20out*'" in make_curl(operations["searchTests"], "", given)
    assert "?by=pipeline'" in make_curl(operations["groupTests"], "", {})
    assert "--data-binary @body" in make_curl(operations["sendEvents"], "", {})
    assert "\n" not in make_curl(operations["getLiveness"], "", {}).replace(" \\\n", "")


def test_an_error_of_a_time_says_the_form_that_people_write() -> None:
    refused = FieldError("query", FROM, "must be an RFC 3339 timestamp with a zone")
    for written in ("Tuesday", "2026-13-01", "10:00"):
        assert explain_error(refused, written).endswith("such as 2026-09-01 or 2026-09-01 14:30")
    early = FieldError("query", FROM, "must not be after received_to")
    assert explain_error(early, "2026-09-01") == "must not be after the end of the range"
    number = FieldError("query", "pull_request", "value 1: must be an integer from 0 to 9")
    assert explain_error(number, "x").startswith("must be the number of a pull request")
    assert explain_error(number, "10") == number.detail
