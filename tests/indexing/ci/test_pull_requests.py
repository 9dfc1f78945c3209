"""Pull requests given as a number or read from a CI's event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.ci.pull_requests import parse_pull_request
from indexing.errors import InvalidValueError
from tests.builders import PULL

PAYLOAD: dict[str, Any] = {
    "id": PULL.id,
    "number": PULL.number,
    "title": PULL.title,
    "user": {"id": PULL.user_id, "login": PULL.user_login, "type": "User"},
}


def test_a_number_is_all_that_is_known() -> None:
    assert parse_pull_request("17") == (17, None)
    assert parse_pull_request(" #17\n") == (17, None)


def test_an_event_has_all_fields_of_the_pull_request() -> None:
    event = json.dumps({"action": "opened", "number": 17, "pull_request": PAYLOAD})
    assert parse_pull_request(event) == (17, PULL)
    assert parse_pull_request(json.dumps(PAYLOAD)) == (17, PULL)


def test_the_number_may_be_that_of_the_event() -> None:
    partly = {name: value for name, value in PAYLOAD.items() if name != "number"}
    assert parse_pull_request(json.dumps({"number": 17, "pull_request": partly})) == (17, PULL)


def test_a_user_without_a_login_is_not_known() -> None:
    nameless = {**PAYLOAD, "user": {"id": PULL.user_id, "login": ""}}
    assert parse_pull_request(json.dumps({"pull_request": nameless})) == (17, None)


@pytest.mark.parametrize("missing", ["id", "title", "user"])
def test_an_incomplete_event_gives_the_number(missing: str) -> None:
    partly = {name: value for name, value in PAYLOAD.items() if name != missing}
    assert parse_pull_request(json.dumps({"pull_request": partly})) == (17, None)
    mistyped = {**PAYLOAD, missing: True}
    assert parse_pull_request(json.dumps({"pull_request": mistyped})) == (17, None)


def test_an_event_of_another_kind_gives_nothing() -> None:
    assert parse_pull_request('{"ref": "refs/heads/main"}') == (None, None)
    assert parse_pull_request('{"number": 17, "title": "not a pull request"}') == (None, None)
    assert parse_pull_request("{}") == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "1.5",
        "seventeen",
        "9" * 19,
        "9" * 40,
        "\u0661\u0667",
        "[17]",
        '{"number"',
        '{"a": "\ud800"}',
    ],
)
def test_what_is_neither_a_number_nor_an_event_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_pull_request(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        parse_pull_request('{"a":' * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "number", "title", "user", "login", "pull_request"]), inner
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_event_breaks_the_reading(value: object) -> None:
    try:
        number, pull = parse_pull_request(json.dumps(value))
    except InvalidValueError:
        return
    assert pull is None or pull.number == number
