"""Lines from any producer: what is parsed, what is refused, and the ids that are derived."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.events.fields import Boolean
from indexing.events.json_text import MAX_DEPTH
from indexing.events.parsing import (
    MAX_REASONS,
    MAX_VALUES,
    ParsedEvent,
    RefusedEventError,
    parse_event,
)
from indexing.names import RepositoryName
from tests import strategies
from tests.indexing.events import shapes
from tests.indexing.events.shapes import an_event


def parsed(event: Any) -> ParsedEvent:
    return parse_event(json.dumps(event).encode())


def members(event: ParsedEvent) -> Any:
    return json.loads(event.body)


def refusal(line: bytes) -> str:
    with pytest.raises(RefusedEventError) as refused:
        parse_event(line)
    return str(refused.value)


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON value with the members of its objects in another order."""
    if isinstance(value, dict):
        names = list(value)
        order.shuffle(names)
        return {name: shuffled(value[name], order) for name in names}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@settings(max_examples=40)
@given(strategies.events, strategies.json_values, st.randoms(use_true_random=False))
def test_the_same_event_in_another_spelling_is_the_same_event(
    event: dict[str, Any], extra: Any, order: random.Random
) -> None:
    del event["id"]
    event["zz_extra"] = extra
    other = shuffled(event, order)
    other["received_at"] = members(parsed(event))["received_at"].replace("Z", "-00:00")
    other["repository"] = event["repository"].swapcase()
    one, two = parsed(event), parsed(other)
    assert 0 <= one.key.id < 2**53
    assert one.key == two.key
    assert one.repository.key == two.repository.key
    assert one.finish(one.repository).body == two.finish(one.repository).body


@settings(max_examples=40)
@given(strategies.events, strategies.texts)
def test_another_content_has_another_derived_id(event: dict[str, Any], text: str) -> None:
    del event["id"]
    other = {**event, "trigger": event["trigger"] + "!" + text}
    assert parsed(event).key.id != parsed(other).key.id


@settings(max_examples=40)
@given(strategies.events)
def test_a_finished_event_goes_in_again_unchanged(event: dict[str, Any]) -> None:
    name = RepositoryName("Some", "Spelling")
    event["repository"] = "sOME/sPELLING"
    once = parsed(event).finish(name)
    assert parse_event(once.body).finish(name) == once
    assert json.loads(once.body)["repository"] == "Some/Spelling"


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=60), strategies.json_values.map(json.dumps).map(str.encode)))
def test_whatever_is_no_event_is_refused_and_nothing_worse(line: bytes) -> None:
    assert refusal(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "the line is not a JSON object"),
        (b"null", "the line is not a JSON object"),
        (b'{"a": 1', "the line is not JSON"),
        (b'{"a": "\xff"}', "the line is not JSON: str is not valid UTF-8"),
        (b'{"a": 1111111111111111111, "b": "\xff"}', "the line is not UTF-8 from byte 33 on"),
        (b'{"a": NaN}', "the line is not JSON"),
        (b'{"a": 1111111111111111111, "b": NaN}', "NaN is no JSON number"),
        (b'{"a": 1111111111111111111, "b": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1111111111111111111, "b": 1e999}', "beyond the range of doubles"),
        (b'{"a": 1e999}', "the line is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "the line is not JSON"),
        (b"[" * 100_000, "the line is not JSON"),
        (b'{"n": 1111111111111111111, "a": ' + b"[" * 100_000, "nested deeper than"),
    ],
)
def test_a_line_that_is_no_json_object_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    assert reason in refusal(line)


@pytest.mark.parametrize("bad", ["nul \0", "lone \ud800", "lone \udfff behind"])
def test_text_that_no_store_takes_is_refused_wherever_it_is(bad: str) -> None:
    def refused(event: Any) -> str:
        return refusal(json.dumps(event).encode())

    assert "metadata.message: must not hold" in refused(an_event(metadata={"message": bad}))
    assert "extra.0.deep: must not hold" in refused(an_event(extra=[{"deep": bad}]))
    assert "the name must not hold" in refused(an_event(extra={bad: 1}))


def test_a_pair_of_escaped_surrogates_is_one_character() -> None:
    line = json.dumps(an_event(trigger="🚀"), ensure_ascii=True).encode()
    assert b"\\ud83d" in line
    assert members(parse_event(line))["trigger"] == "🚀"


def nested(levels: int) -> Any:
    value: Any = "base=main"
    for _ in range(levels):
        value = {"not": value}
    return value


def test_nesting_is_accepted_up_to_its_limit_and_refused_beyond_it() -> None:
    event = shapes.plain(shapes.event_shape("scheduled_freeze.create"))
    attributes = event["metadata"]["scheduled_freeze_attributes"]
    attributes["matching_conditions"] = nested(MAX_DEPTH - 3)
    assert parsed(event).type == "scheduled_freeze.create"
    attributes["matching_conditions"] = nested(MAX_DEPTH - 2)
    assert "nested deeper" in refusal(json.dumps(event).encode())
    assert "nested deeper" in refusal(json.dumps(an_event(extra=nested(MAX_DEPTH))).encode())


def test_brackets_within_strings_are_no_nesting() -> None:
    assert parsed(an_event(trigger="{[" * 1000)).type == "action.comment"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"id": -1}, "id: must be from 0 to 9223372036854775807"),
        ({"id": 2**63}, "id: must be from 0 to 9223372036854775807"),
        ({"pull_request": 2**63}, "pull_request: must be from 0 to 9223372036854775807"),
        ({"pull_request": -1}, "pull_request: must be from 0 to 9223372036854775807"),
        ({"type": "action.fly"}, "type: 'action.fly' is none of the 41 event types"),
        ({"type": "x" * 9999}, "and 9919 characters more"),
        ({"type": "new\nline"}, "type: 'new\\nline' is none"),
    ],
)
def test_what_is_out_of_bounds_is_named(members: dict[str, Any], reason: str) -> None:
    assert reason in refusal(json.dumps(an_event(**members)).encode())


@pytest.mark.parametrize("number", [0, 2**63 - 1])
def test_ids_and_numbers_may_be_as_great_as_the_store_takes(number: int) -> None:
    event = parsed(an_event(id=number, pull_request=number)).finish(RepositoryName("demo", "x"))
    assert (event.key.id, event.pull_request) == (number, number)


def test_all_that_is_wrong_is_named_at_once() -> None:
    found = refusal(b'{"type": "action.nothing", "id": "x", "base_ref": 5, "metadata": []}')
    for member in ("id", "received_at", "trigger", "repository", "base_ref", "type", "metadata"):
        assert f"{member}: " in found


def test_an_event_that_is_wrong_in_countless_places_is_refused_briefly() -> None:
    event = shapes.plain(shapes.event_shape("action.assign"))
    event["metadata"]["added"] = [None] * 10_000
    with pytest.raises(RefusedEventError) as refused:
        parsed(event)
    assert len(refused.value.reasons) == MAX_REASONS + 1
    assert refused.value.reasons[-1] == "and more"


def test_a_long_name_over_countless_bad_texts_costs_little() -> None:
    found = refusal(json.dumps(an_event(**{"k" * 400_000: ["\0"] * 15_000})).encode())
    assert "must not hold a NUL" in found
    assert len(found) < 200 * MAX_REASONS


def test_a_line_of_too_many_values_is_refused_by_their_number() -> None:
    values = f"the line has more than {MAX_VALUES} values"
    assert values in refusal(json.dumps(an_event(extra=[0] * (MAX_VALUES + 1))).encode())
    assert parsed(an_event(extra=[0] * (MAX_VALUES - 100))).type == "action.comment"
    # Brackets and commas inside a string are not values.
    assert parsed(an_event(extra="[,{" * MAX_VALUES)).type == "action.comment"


def with_conditions(subconditions: list[Any]) -> bytes:
    event = shapes.plain(shapes.event_shape("action.queue.leave"))
    event["metadata"]["conditions_evaluation"]["subconditions"] = subconditions
    return json.dumps(event).encode()


def test_validation_stops_at_the_first_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    read = Boolean.read

    def counting(self: Boolean, value: Any) -> bool:
        nonlocal looked_at
        looked_at += 1
        return read(self, value)

    monkeypatch.setattr(Boolean, "read", counting)
    wrong = {"match": 1}
    tree: list[Any] = [wrong] * 4
    for _ in range(5):
        tree = [{"match": 1, "subconditions": tree}] * 4
    for subconditions in ([wrong] * 6_000, tree):
        looked_at = 0
        assert "and more" in refusal(with_conditions(subconditions))
        assert looked_at < 10 * MAX_REASONS
