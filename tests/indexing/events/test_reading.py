"""The two ways of reading an event: at the first error, and with all errors."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import ValidationError

from indexing.events.catalogue import CATALOGUE
from indexing.events.conditions import Conditions
from indexing.events.fields import Errors, current_errors
from indexing.events.json_text import encode
from indexing.events.schema import OpenSchema
from tests import strategies


def outcome(read: Any, event: dict[str, Any]) -> bytes | None:
    """Return the text of what is read, in its order; `None` if the event is refused."""
    current_errors.set(Errors(1_000))
    try:
        return encode(read(event))
    except ValidationError:
        return None


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return each member and element of a value, as its container and its key."""
    if isinstance(value, dict):
        inner: list[tuple[Any, Any]] = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in inner] + [
        place for _, member in inner for place in places(member)
    ]


@pytest.mark.parametrize("event_type", CATALOGUE)
@settings(max_examples=20)
@given(data=st.data())
def test_both_ways_read_the_same_and_refuse_the_same(event_type: str, data: st.DataObject) -> None:
    event = data.draw(strategies.events_of(event_type))
    event.setdefault("id", 1)
    if data.draw(st.booleans()):
        container, key = data.draw(st.sampled_from(places(event)))
        container[key] = data.draw(st.none() | strategies.json_values)
    if data.draw(st.booleans()):
        container, key = data.draw(st.sampled_from(places(event)))
        del container[key]
    schema = cast(OpenSchema, CATALOGUE[event_type].envelope())
    assert outcome(schema.read, event) == outcome(schema.load, event)


@pytest.mark.parametrize(
    ("conditions", "valid"),
    [({"and": []}, True), ({"and": [], "or": []}, False), ({}, False), ({"not": {"x": 1}}, False)],
)
def test_both_ways_check_what_concerns_several_members(
    conditions: dict[str, Any], valid: bool
) -> None:
    read, loaded = (outcome(way, conditions) for way in (Conditions().read, Conditions().load))
    assert read == loaded
    assert (read is not None) is valid
